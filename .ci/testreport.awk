# Reads go test -json and prints what go test prints: a line for each package,
# and the output of failed tests. At the end it names the skipped tests with
# their reasons. The exit code is 1 after a failure. If ci is set, it is also 1
# after a skip, because CI installs every program that a test needs.
#
# short is set when go test ran with -short. Tests that skip themselves with the
# reason "long" are then only counted. If short is positive, the report names
# every test that took more than that number of seconds; with ci it fails.
#
# The fields have the order of cmd/internal/test2json. A line that is not an
# event (a compiler's message) is printed as it is.

function field(name,    at, rest, out, c) {
    at = index($0, "\"" name "\":\"")
    if (at == 0) return ""
    rest = substr($0, at + length(name) + 4)
    out = ""
    while (match(rest, /["\\]/)) {
        out = out substr(rest, 1, RSTART - 1)
        c = substr(rest, RSTART, 1)
        if (c == "\"") return out
        c = substr(rest, RSTART + 1, 1)
        rest = substr(rest, RSTART + 2)
        if (c == "n") out = out "\n"
        else if (c == "t") out = out "\t"
        else if (c == "r") out = out "\r"
        else if (c == "u") {
            c = tolower(substr(rest, 1, 4)); rest = substr(rest, 5)
            if (c == "003c") out = out "<"
            else if (c == "003e") out = out ">"
            else if (c == "0026") out = out "&"
            else out = out "\\u" c
        }
        else out = out c
    }
    return out
}

$0 !~ /^\{.*"Action":"/ { print; fflush(); next }

{
    # Output is the last field and may quote anything: look before it.
    whole = $0
    output = field("Output")
    cut = index(whole, ",\"Output\":\"")
    if (cut) $0 = substr(whole, 1, cut - 1)
    action = field("Action"); pkg = field("Package"); test = field("Test")
    if (pkg == "") pkg = field("ImportPath")
    key = pkg SUBSEP test
}

action == "build-output" { printf "%s", output; fflush() }
action == "build-fail"   { failed = 1 }

action == "output" && test != "" {
    if (output !~ /^=== (RUN|PAUSE|CONT|NAME)/) held[key] = held[key] output
}
action == "output" && test == "" {
    # Go prints PASS and, with -v, headings that plain go test leaves out.
    if (output !~ /^(PASS|=== )/) { printf "%s", output; fflush() }
}

action == "pass" && test != "" {
    delete held[key]
    if (short > 0 && match($0, /"Elapsed":[0-9.]+/)) {
        seconds = substr($0, RSTART + 10, RLENGTH - 10)
        if (seconds + 0 > short) slow[++slows] = "  " pkg " " test ": " seconds " s"
    }
}
action == "fail" {
    failed = 1
    if (test != "") { printf "%s", held[key]; fflush(); delete held[key] }
}
action == "skip" && test != "" {
    reason = held[key]
    sub(/--- SKIP:.*/, "", reason)
    gsub(/[ \t]*\n[ \t]*/, " ", reason); gsub(/^ +| +$/, "", reason)
    delete held[key]
    if (short != "" && reason ~ /(^|: )long$/) longs++
    else skipped[++skips] = "  " pkg " " test (reason == "" ? "" : ": " reason)
}

END {
    # A test that neither passed nor failed was cut short by a panic or a timeout.
    for (key in held) printf "%s", held[key]
    if (longs) print "long tests left out: " longs " (make long runs them)"
    if (slows) {
        print "tests that take more than " short " s, which only long tests may:"
        for (i = 1; i <= slows; i++) print slow[i]
        if (ci != "" && ci != "false") failed = 1
    }
    if (skips) {
        print "skipped tests:"
        for (i = 1; i <= skips; i++) print skipped[i]
        if (ci != "" && ci != "false") { print "a skipped test is a failure in CI"; failed = 1 }
    } else if (NR) print "no test was skipped"
    if (NR == 0) failed = 1 # go test said nothing at all
    exit failed
}
