#!/bin/bash
# make bench-access: what TLS and an access file cost a command, beside the proxies that give
# beanstalkd TLS. CPU is of the server's process with its children, so a proxy and its beanstalkd
# count together. It writes loadtest/ACCESS.md, below the line "<!-- measured -->", and leaves out a
# proxy that is not installed. BASE=FILE adds an older polystalkd, as the baseline without any
# of this. It runs ROUNDS=5 rounds of DURATION=2s from the top folder, after make build.
set -euo pipefail

out=loadtest/out page=loadtest/ACCESS.md
TLS=$out/access

# proxied PROXY PORT DIR starts beanstalkd at a unix socket, and a proxy before it, until a signal.
if [ "${1:-}" = proxied ]; then
	TLS=$PWD/$TLS
	cd "$4"
	case $2 in
	haproxy)
		printf '%s\n' 'global' ' nbthread 1' 'defaults' ' mode tcp' ' timeout connect 5s' ' timeout client 1m' ' timeout server 1m' \
			'listen l' " bind 127.0.0.1:$3 ssl crt $TLS.pem" " server one unix@$4/b" >conf
		proxy=(haproxy -db -f conf)
		;;
	nginx)
		printf '%s\n' 'load_module /usr/lib/nginx/modules/ngx_stream_module.so;' 'daemon off; master_process off; error_log stderr;' "pid $4/pid;" 'events {}' \
			"stream { access_log off; server { listen 127.0.0.1:$3 ssl; ssl_certificate $TLS.crt; ssl_certificate_key $TLS.key; proxy_pass unix:$4/b; } }" >conf
		proxy=(nginx -p "$4" -c "$4/conf" -e stderr)
		;;
	stunnel)
		printf '%s\n' 'foreground = yes' 'pid =' 'debug = err' '[l]' "accept = 127.0.0.1:$3" "connect = $4/b" "cert = $TLS.crt" "key = $TLS.key" >conf
		proxy=(stunnel conf)
		;;
	esac
	beanstalkd -l "unix:$4/b" &
	first=$!
	while ! [ -S b ]; do sleep 0.05; done
	"${proxy[@]}" &
	trap "kill $! $first" TERM INT
	wait $! || true
	exit
fi

mkdir -p $out
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $TLS.key -out $TLS.crt -days 30 -subj /CN=localhost \
	-addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
cat $TLS.crt $TLS.key >$TLS.pem
{ # 16 patterns, of which the last one matches the tubes of the loads
	echo '[identity.default]'
	printf 'put = ['; for i in {1..7}; do printf '"mail%s-*", ' $i; done; echo '"*"]'
	printf 'work = ['; for i in {1..7}; do printf '"mail%s-*", ' $i; done; echo '"*"]'
	echo 'manage = ["*"]'
	echo 'server = "read"'
} >$out/access.toml

plain='./bin/polystalkd -l 127.0.0.1 -p {port}'
tls="-l unix:{dir}/u --tls-listen 127.0.0.1:{port} --tls-cert $TLS.crt --tls-key $TLS.key"
open=() secure=(--compare "plain=$plain" --compare "TLS=tls:./bin/polystalkd $tls")
[ -z "${BASE:-}" ] || open+=(--compare "base=$BASE -l 127.0.0.1 -p {port}")
open+=(--compare "no-file=$plain" --compare "access-file=$plain --access-file $out/access.toml")
if command -v beanstalkd >/dev/null; then
	secure+=(--compare 'beanstalkd=beanstalkd -l 127.0.0.1 -p {port}')
	for proxy in haproxy nginx stunnel; do
		if command -v $proxy >/dev/null; then
			secure+=(--compare "$proxy-beanstalkd=tls:loadtest/access.sh proxied $proxy {port} {dir}")
		else
			echo "bench-access: $proxy is left out: it is not installed" >&2
		fi
	done
fi

before=$(cut -d" " -f1-3 /proc/loadavg)
settings=(--server-cpus 0 --load-cpus 1 --rounds "${ROUNDS:-5}" --duration "${DURATION:-2s}" --warmup 1s)
go build -o bin/loadtest ./loadtest
./bin/loadtest "${settings[@]}" "${open[@]}" --load 'cycle name=cycle' --load 'cycle name=cycle-16 depth=16' --load 'laravel name=laravel' --json $out/open.json --markdown $out/open.md
./bin/loadtest "${settings[@]}" "${secure[@]}" --load 'cycle name=cycle' --load 'cycle name=cycle-16 depth=16' --json $out/secure.json --markdown $out/secure.md

{
	sed '/^<!-- measured -->$/q' $page
	printf '\nThe load average of the machine was %s before the measurement, and %s after it.\n' "$before" "$(cut -d" " -f1-3 /proc/loadavg)"
	for part in 'open Rights' 'secure TLS'; do
		printf '\n## %s\n\n' "${part#* }"
		sed -e 1,4d -e 's/^## /### /' -e 's|`go run ./loadtest|`./bin/loadtest|' "$out/${part%% *}.md"
	done
} >$out/page.md
mv $out/page.md $page
