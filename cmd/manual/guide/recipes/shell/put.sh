#!/bin/sh
# Puts three mails into the tube shell-mail. Use: sh put.sh (needs OpenBSD's nc)
for to in alice bob nobody; do
	# Priority 100, no delay, 60 seconds to run, and the size of the body in bytes.
	printf 'use shell-mail\r\nput 100 0 60 %d\r\n%s\r\nquit\r\n' "${#to}" "$to"
done | while read -r use && read -r put && read -r body && read -r quit; do
	printf '%s\n' "$use" "$put" "$body" "$quit" | nc -N "${BEANSTALKD_HOST:-127.0.0.1}" "${BEANSTALKD_PORT:-11300}"
done
