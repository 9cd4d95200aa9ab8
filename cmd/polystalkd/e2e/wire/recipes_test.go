package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

// recipesDir has the examples that users copy, one folder for each framework or language.
var recipesDir = filepath.Join("..", "..", "..", "manual", "guide", "recipes")

// A recipe is an example of a client: a producer of three jobs and a worker, in a folder of
// recipesDir. The worker does the jobs for alice and bob, and fails at the job for nobody.
type recipe struct {
	name, language string
	from           source   // of the client
	needs          []source // besides from
	covers         string   // besides put, reserve and delete, for the page
	folder         string
	build          string // a command line that comes first, or none
	put, work      string // command lines
	tube           string
	want           effect
	adapt          func(dir string) // changes the copy of the folder; may be nil
}

// recipeTime bounds a recipe, a compiler on a busy machine included.
const recipeTime = 3 * time.Minute

// An effect is what the server counts in a tube.
type effect struct{ puts, deletes, releases, buries int }

// buried is the effect of a worker that buries the job that it cannot do.
// failed is the effect of a Gearman worker: a failed job is deleted.
var (
	buried = effect{puts: 3, deletes: 2, buries: 1}
	failed = effect{puts: 3, deletes: 3}
)

const (
	buries = "bury"
	fails  = "background and foreground jobs, failure"
)

var recipes = []*recipe{
	{
		name: "Laravel queue", language: "PHP", from: source{"deb", "php-laravel-framework"},
		needs:  []source{{"deb", "php-cli"}, {"deb", "php-pda-pheanstalk"}},
		covers: "`queue:work`, three tries, release, `failed()`", folder: "laravel",
		put: "php artisan mail", work: "php artisan queue:work", tube: "laravel",
		want: effect{puts: 3, deletes: 3, releases: 2},
	},
	{
		name: "Symfony Messenger", language: "PHP", from: source{"deb", "php-symfony-beanstalkd-messenger"},
		needs:  []source{{"deb", "php-cli"}, {"deb", "php-symfony-framework-bundle"}, {"deb", "php-symfony-yaml"}, {"deb", "php-xml"}},
		covers: "`messenger:consume`, two retries, failure transport", folder: "symfony",
		put: "php bin/console mail", work: "php bin/console messenger:consume mail", tube: "symfony-mail",
		want: effect{puts: 5, deletes: 5}, // a retry is a new job
	},
	{
		name: "Pheanstalk", language: "PHP", from: source{"deb", "php-pda-pheanstalk"}, needs: []source{{"deb", "php-cli"}},
		covers: "every command (test of clients)", folder: "php",
		put: "php put.php", work: "php work.php", tube: "php-mail", want: buried,
	},
	{
		name: "Active Job (Rails)", language: "Ruby", from: source{"deb", "ruby-activejob"}, needs: []source{{"deb", "ruby-beaneater"}},
		covers: "`perform_later`, `retry_on`, bury; an adapter on beaneater", folder: "activejob",
		put: "ruby put.rb", work: "ruby work.rb", tube: "activejob-mail",
		want: effect{puts: 4, deletes: 3, buries: 1}, // a retry is a new job
	},
	{
		name: "beaneater", language: "Ruby", from: source{"deb", "ruby-beaneater"},
		covers: "`jobs.process!`; every command (test of clients)", folder: "ruby",
		put: "ruby put.rb", work: "ruby work.rb", tube: "ruby-mail", want: buried,
	},
	{
		name: "standard library", language: "Python", from: source{"program", "python3 --version"},
		covers: "retries with a growing delay, bury", folder: "python",
		put: "python3 put.py", work: "python3 work.py", tube: "python-mail",
		want: effect{puts: 3, deletes: 2, releases: 1, buries: 1},
	},
	{
		name: "jackd", language: "Node", from: source{"npm", "jackd"}, covers: "every command (test of clients)", folder: "node",
		put: "node jackd.js put", work: "node jackd.js work", tube: "jackd-mail", want: buried,
	},
	{
		name: "fivebeans", language: "Node", from: source{"npm", "fivebeans"}, covers: "its worker with handlers, bury", folder: "node",
		put: "node fivebeans.js put", work: "node fivebeans.js work", tube: "fivebeans-mail", want: buried,
	},
	{
		name: "node-beanstalk", language: "Node", from: source{"npm", "node-beanstalk"}, covers: buries, folder: "node",
		put: "node node-beanstalk.js put", work: "node node-beanstalk.js work", tube: "node-beanstalk-mail", want: buried,
	},
	{
		name: "beanstalkd", language: "Node", from: source{"npm", "beanstalkd"}, covers: buries, folder: "node",
		put: "node beanstalkd.js put", work: "node beanstalkd.js work", tube: "beanstalkd-mail", want: buried,
	},
	{
		name: "go-beanstalk", language: "Go", from: source{"go", "github.com/beanstalkd/go-beanstalk"},
		covers: "every command (test of clients)", folder: "go", build: "go build -o mail main.go",
		put: "./mail put", work: "./mail work", tube: "go-mail", want: buried,
	},
	{
		name: "standard library", language: "Java", from: source{"program", "javac --version"}, covers: buries, folder: "java",
		build: "javac Beanstalk.java Mail.java", put: "java Mail put", work: "java Mail work", tube: "java-mail", want: buried,
	},
	{
		name: "standard modules", language: "Perl", from: source{"program", "perl -e print($^V)"}, covers: buries, folder: "perl",
		put: "perl -I. put.pl", work: "perl -I. work.pl", tube: "perl-mail", want: buried,
	},
	{
		name: "bash and nc", language: "Shell", from: source{"program", "bash --version"}, needs: []source{{"deb", "netcat-openbsd"}},
		covers: buries, folder: "shell", put: "sh put.sh", work: "bash work.sh", tube: "shell-mail", want: buried,
	},
	{
		name: "php-gearman (libgearman)", language: "PHP", from: source{"deb", "php-gearman"}, needs: []source{{"deb", "php-cli"}},
		covers: fails + ", exceptions", folder: "gearman-php",
		put: "php client.php", work: "php worker.php", tube: "php_send", want: failed,
	},
	{
		name: "Gearman::Client, Gearman::Worker", language: "Perl", from: source{"deb", "libgearman-client-perl"},
		covers: fails + ", exceptions", folder: "gearman-perl",
		put: "perl client.pl", work: "perl worker.pl", tube: "perl_send", want: failed,
	},
	{
		name: "gearmanode", language: "Node", from: source{"npm", "gearmanode"}, covers: fails + ", exceptions", folder: "gearman-node",
		put: "node gearmanode.js client", work: "node gearmanode.js worker", tube: "gearmanode_send", want: failed,
	},
	{
		name: "abraxas", language: "Node", from: source{"npm", "abraxas"}, covers: fails + ", exceptions", folder: "gearman-node",
		put: "node abraxas.js client", work: "node abraxas.js worker", tube: "abraxas_send", want: failed,
	},
	{
		name: "node-gearman", language: "Node", from: source{"npm", "node-gearman"}, covers: "foreground jobs, failure", folder: "gearman-node",
		put: "node node-gearman.js client", work: "node node-gearman.js worker", tube: "node_gearman_send", want: failed,
	},
	{
		name: "gearman (libgearman)", language: "Shell", from: source{"deb", "gearman-tools"}, covers: fails, folder: "gearman-shell",
		put: "sh client.sh", work: "sh worker.sh", tube: "shell_send", want: failed,
	},
}

// A source is where a client or tool comes from: "deb" and a package of Debian, "npm" and a module,
// "go" and a module of go.mod, or "program" and a command line that prints its version.
type source struct{ kind, name string }

// version returns the installed version. An error says what to install.
func (s source) version() (string, error) {
	switch s.kind {
	case "deb":
		out, err := exec.Command("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", s.name).Output()
		v, installed := strings.CutPrefix(string(out), "installed ")
		if err != nil || !installed {
			return "", fmt.Errorf("install Debian's %s", s.name)
		}
		if _, after, epoch := strings.Cut(v, ":"); epoch {
			v = after
		}
		return v[:strings.IndexFunc(v+"-", func(r rune) bool { return r == '-' || r == '+' })], nil
	case "npm":
		for _, dir := range nodeDirs() {
			text, err := os.ReadFile(filepath.Join(dir, s.name, "package.json"))
			var module struct{ Version string }
			if err == nil && json.Unmarshal(text, &module) == nil {
				return module.Version, nil
			}
		}
		return "", fmt.Errorf("install node, and %s with npm, and set NODE_PATH", s.name)
	case "go":
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", s.name).Output()
		return strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), err
	}
	words := strings.Fields(s.name)
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("install %s", words[0])
	}
	return versionNumber.FindString(string(out)), nil
}

// nodeDirs are the folders of Node's modules: the environment's, and the one that .ci/run fills.
func nodeDirs() []string {
	dirs := filepath.SplitList(os.Getenv("NODE_PATH"))
	if ours, err := filepath.Abs(filepath.Join("..", "..", "..", "..", ".ci", "tmp", "node", "node_modules")); err == nil {
		dirs = append(dirs, ours)
	}
	return dirs
}

// require skips the test if a source is not installed.
func require(t *testing.T, sources ...source) {
	t.Helper()
	for _, s := range sources {
		if _, err := s.version(); err != nil {
			t.Skip(err)
		}
	}
}

// A kitchen is the server that recipes use.
type kitchen struct {
	beanstalkd, gearman, http string // addresses
	server                    *daemon.Server
}

func startKitchen(t *testing.T, args ...string) *kitchen {
	t.Helper()
	k := &kitchen{gearman: daemon.FreeAddress(t), http: daemon.FreeAddress(t)}
	k.server = daemon.Serve(t, append(args, "--gearman-listen", k.gearman, "--http", k.http)...)
	k.beanstalkd = k.server.Listen[0]
	return k
}

// env is the environment of a recipe's programs.
func (k *kitchen) env() []string {
	env := []string{
		"MESSENGER_TRANSPORT_DSN=beanstalkd://" + k.beanstalkd, "NODE_PATH=" + strings.Join(nodeDirs(), ":"),
		"NODE_NO_WARNINGS=1", "PYTHONDONTWRITEBYTECODE=1", "RETRIES=1", "JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", // half the time
	}
	for name, address := range map[string]string{"BEANSTALKD": k.beanstalkd, "GEARMAN": k.gearman} {
		host, port, _ := net.SplitHostPort(address)
		env = append(env, name+"_HOST="+host, name+"_PORT="+port)
	}
	return daemon.CleanEnv(env...)
}

// tube returns what the server counts in a tube.
func (k *kitchen) tube(name string) (tube admin.Tube, err error) {
	resp, err := http.Get("http://" + k.http + "/api/v1/tubes/" + name)
	if err != nil {
		return tube, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return tube, fmt.Errorf("%s: %s", name, resp.Status)
	}
	return tube, json.NewDecoder(resp.Body).Decode(&tube)
}

// await returns once the server has counted as much in the tube.
func (k *kitchen) await(ctx context.Context, tube string, want effect) error {
	for {
		now, err := k.tube(tube)
		if err != nil {
			return err
		}
		got := effect{int(now.JobsTotal), int(now.Deletes), int(now.Events["release"]), int(now.Events["bury"])}
		if got == want && now.Jobs.Ready+now.Jobs.Reserved+now.Jobs.Delayed == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: the server counts %+v and %+v, want %+v", tube, got, now.Jobs, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestRecipes runs the producer and the worker of each recipe, and checks their effect in the server.
func TestRecipes(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	k := startKitchen(t)
	for _, r := range recipes {
		t.Run(r.language+"/"+r.name, func(t *testing.T) {
			t.Parallel()
			require(t, append(r.needs, r.from)...)
			cook(t, k, r)
		})
	}
}

func cook(t *testing.T, k *kitchen, r *recipe) {
	dir := t.TempDir()
	noErr(t, os.CopyFS(dir, os.DirFS(filepath.Join(recipesDir, r.folder))))
	if _, err := os.Stat(filepath.Join(dir, "composer.json")); err == nil {
		noErr(t, os.Mkdir(filepath.Join(dir, "vendor"), 0o755))
		noErr(t, os.WriteFile(filepath.Join(dir, "vendor", "autoload.php"), []byte(debianAutoload), 0o600))
	}
	if r.adapt != nil {
		r.adapt(dir)
	}
	// A tube without jobs and clients disappears with its counters.
	daemon.Says(t, daemon.Dial(t, k.beanstalkd), "use "+r.tube+"\r\n", "USING "+r.tube+"\r\n")
	ctx, cancel := context.WithTimeout(t.Context(), recipeTime)
	defer cancel()
	if r.build != "" {
		cmd := inGroup(ctx, k, dir, r.build)
		if strings.HasPrefix(r.build, "go ") { // with this module's version of the library
			cmd = exec.CommandContext(ctx, "go", "build", "-o", dir+"/mail", filepath.Join(recipesDir, r.folder, "main.go"))
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", r.build, err, out)
		}
	}
	worker := inGroup(ctx, k, dir, r.work)
	var said bytes.Buffer
	worker.Stdout, worker.Stderr = &said, &said
	noErr(t, worker.Start())
	out, err := inGroup(ctx, k, dir, r.put).Output()
	if err == nil {
		err = k.await(ctx, r.tube, r.want)
	}
	_ = syscall.Kill(-worker.Process.Pid, syscall.SIGKILL) // and what it has started
	_ = worker.Wait()                                      // killed
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		out = append(out, exit.Stderr...)
	}
	text := said.String()
	if err != nil || !strings.Contains(text, "sent to alice") || !strings.Contains(text, "sent to bob") || strings.Contains(text, "sent to nobody") {
		t.Errorf("%v; the producer: %s\nthe worker: %s", err, out, text)
	}
}

// inGroup returns a command that runs in dir, as the leader of a group of processes.
func inGroup(ctx context.Context, k *kitchen, dir, line string) *exec.Cmd {
	words := strings.Fields(line)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, k.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	return cmd
}

// debianAutoload is Composer's vendor/autoload.php for libraries that Debian has installed.
const debianAutoload = `<?php
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED); // libraries older than this PHP
foreach (['Pheanstalk', 'Illuminate/Queue', 'Illuminate/Bus', 'Illuminate/Cache', 'Illuminate/Config', 'Illuminate/Events',
    'Illuminate/Log', 'Symfony/Bundle/FrameworkBundle', 'Symfony/Component/Console', 'Symfony/Component/Messenger/Bridge/Beanstalkd',
    'Symfony/Component/Yaml'] as $library) {
    if (stream_resolve_include_path("$library/autoload.php")) {
        require_once "$library/autoload.php";
    }
}
if (stream_resolve_include_path('Illuminate/Foundation/helpers.php')) {
    require_once 'Illuminate/Foundation/helpers.php';
}
spl_autoload_register(function (string $class) {
    $path = strtr($class, '\\', '/') . '.php';
    foreach (['app/', 'src/'] as $folder) {
        if (str_starts_with($path, 'App/') && is_file($file = dirname(__DIR__) . "/$folder" . substr($path, 4))) {
            require_once $file;
            return;
        }
    }
    if (stream_resolve_include_path($path)) {
        require_once $path;
    }
});
`

// noErr ends the test if there is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
