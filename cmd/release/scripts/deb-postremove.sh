#!/bin/sh
# Debian's postrm: once the package is purged, the journal is gone with it, and what the
# system knows of the units. The account stays: a number that was another's must not come to
# own what is left of it elsewhere.
set -e

if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
fi

if [ "$1" = purge ]; then
	if command -v deb-systemd-helper >/dev/null; then
		for unit in polystalkd.service polystalkd.socket polystalkd-http.socket polystalkd-gearman.socket; do
			deb-systemd-helper purge "$unit" >/dev/null || true
			deb-systemd-helper unmask "$unit" >/dev/null || true
		done
	fi
	# A file system of its own is emptied, and left.
	rm -rf /var/lib/polystalkd 2>/dev/null || rm -rf /var/lib/polystalkd/* || true
fi
