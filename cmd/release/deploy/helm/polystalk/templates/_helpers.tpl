{{- define "polystalk.labels" -}}
app.kubernetes.io/name: polystalk
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "polystalk.name" -}}
{{- if contains "polystalk" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-polystalk" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* The addresses of all servers. Every server gets the same list. */ -}}
{{- define "polystalk.bootstrap" -}}
{{- $name := include "polystalk.name" . -}}
{{- range $i := until (int .Values.replicas) }}{{ if $i }},{{ end }}{{ $name }}-{{ $i }}.{{ $name }}-peers:11390{{ end -}}
{{- end }}
