#!/bin/sh
# Debian's postinst: makes the account, enables the units on a first installation, and
# starts them, as a package of Debian does, unless /usr/sbin/policy-rc.d or a preset of the
# administrator's says otherwise. On an upgrade the server is restarted: it ends with all
# jobs in its journal, clients wait at the sockets, which stay open, and the new one reads
# the journal. A package that was removed and comes back looks the same as an upgrade, so
# that one which was stopped is started as well, as with Debian's packages; one that is
# disabled or masked is not.
set -e

case "$1" in
configure | abort-upgrade | abort-deconfigure | abort-remove) ;;
*)
	echo "postinst called with unknown argument '$1'" >&2
	exit 1
	;;
esac

# The group of a socket is that of the account.
systemd-sysusers polystalkd.conf

for unit in polystalkd.service polystalkd.socket polystalkd-http.socket; do
	deb-systemd-helper unmask "$unit" >/dev/null || true
	# It is true on a first installation as well.
	if deb-systemd-helper --quiet was-enabled "$unit"; then
		deb-systemd-helper enable "$unit" >/dev/null || true
	else
		deb-systemd-helper update-state "$unit" >/dev/null || true
	fi
done
# Gearman is for those who enable it.
unit=polystalkd-gearman.socket
if deb-systemd-helper debian-installed "$unit"; then
	deb-systemd-helper unmask "$unit" >/dev/null || true
	if deb-systemd-helper --quiet was-enabled "$unit"; then
		deb-systemd-helper enable "$unit" >/dev/null || true
	fi
fi
deb-systemd-helper update-state "$unit" >/dev/null || true

if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
	if [ "$1" = configure ] && [ -z "$2" ]; then
		deb-systemd-invoke start polystalkd.socket polystalkd-http.socket polystalkd.service >/dev/null ||
			echo "polystalkd could not be started; does another server have its ports? See: systemctl status polystalkd.socket polystalkd" >&2
	else
		deb-systemd-invoke restart polystalkd.service >/dev/null ||
			echo "polystalkd could not be restarted; its jobs are in its journal. See: systemctl status polystalkd" >&2
	fi
fi
