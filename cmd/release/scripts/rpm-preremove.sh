# RPM's %preun: on the last removal, not on an upgrade, stops and disables all. A socket
# that still listened would start the server again.
if [ "$1" -eq 0 ]; then
	systemctl --no-reload disable --now polystalkd.socket polystalkd-http.socket polystalkd-gearman.socket polystalkd.service >/dev/null 2>&1 || :
fi
