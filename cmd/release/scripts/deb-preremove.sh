#!/bin/sh
# Debian's prerm: stops what runs, if the package is removed. On an upgrade it goes on: see
# postinst. A socket that still listened would start the server again, so that all stop.
set -e

if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	deb-systemd-invoke stop polystalkd.socket polystalkd-http.socket polystalkd-gearman.socket polystalkd.service >/dev/null || true
fi
