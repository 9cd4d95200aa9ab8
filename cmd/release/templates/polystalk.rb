# brew install --formula ./polystalk.rb
class Polystalk < Formula
  desc "Job server that speaks the protocols of beanstalkd and Gearman"
  homepage "{{.URL}}"
  version "{{.Version}}"
  license "MIT"
{{range $system, $archives := .Systems}}
  on_{{$system}} do
{{- if eq $system "macos"}}
    depends_on arch: :arm64
{{- end}}
{{- range $archives}}
    on_{{.CPU}} do
      url "{{$.URL}}/{{.Name}}"
      sha256 "{{.SHA256}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install Dir["bin/*"]
    man.install Dir["share/man/*"]
    bash_completion.install "share/bash-completion/completions/polystalk"
    zsh_completion.install "share/zsh/vendor-completions/_polystalk"
    fish_completion.install "share/fish/vendor_completions.d/polystalk.fish"
    doc.install "NOTICES", "polystalkd.toml"
  end

  def post_install
    (var/"polystalkd").mkpath
  end

  service do
    run [opt_bin/"polystalkd", "--listen", "127.0.0.1", "--binlog-dir", var/"polystalkd"]
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/polystalkd --version")
  end
end
