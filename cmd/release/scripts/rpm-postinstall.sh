# RPM's %post: makes the account and, on a first installation, enables what the system's
# presets say; nothing is started, as is the custom there.
systemd-sysusers polystalkd.conf || :
systemctl daemon-reload >/dev/null 2>&1 || :
if [ "$1" -eq 1 ]; then
	systemctl --no-reload preset polystalkd.service polystalkd.socket polystalkd-http.socket polystalkd-gearman.socket >/dev/null 2>&1 || :
fi
