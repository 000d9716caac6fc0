{{- define "postrider.environment" -}}
- name: POSTRIDER_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.database.existingSecret }}, key: {{ .Values.database.key }}}}
- {name: POSTRIDER_SCHEMA, value: {{ .Values.database.schema | quote }}}
{{- if .Values.nats.existingSecret }}
- name: POSTRIDER_NATS_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.nats.existingSecret }}, key: {{ .Values.nats.key }}}}
{{- else }}
- {name: POSTRIDER_NATS_URL, value: {{ .Values.nats.url | quote }}}
{{- end }}
{{- if .Values.nats.credsSecret }}
- {name: POSTRIDER_NATS_CREDS, value: /run/postrider/nats.creds}
{{- end }}
{{- if .Values.nats.caSecret }}
- {name: POSTRIDER_NATS_CA, value: /run/postrider/nats-ca.crt}
{{- end }}
{{- if .Values.nats.contextSecret }}
- {name: POSTRIDER_NATS_CONTEXT, value: /run/postrider/context.json}
{{- end }}
- {name: GOMEMLIMIT, value: {{ .Values.goMemLimit | quote }}}
- {name: POSTRIDER_DRAIN_TIMEOUT, value: {{ printf "%ds" (int .Values.drainTimeoutSeconds) | quote }}}
{{- with .Values.monitor }}
{{- if .enabled }}
- {name: POSTRIDER_HTTP_ADDR, value: ":8080"}
- {name: POSTRIDER_HTTP_USERS_FILE, value: /run/postrider/users}
{{- if .showPayload }}
- {name: POSTRIDER_HTTP_SHOW_PAYLOAD, value: "true"}
{{- end }}
{{- if .hosts }}
# Prometheus comes by the pod's address.
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end }}
{{- with concat .hosts (ternary (list "$(POD_IP)") list (not (empty .hosts))) (compact (list .basePath)) }}
- {name: POSTRIDER_HTTP_HOST, value: {{ join "," . | quote }}}
{{- end }}
{{- else }}
- {name: POSTRIDER_HTTP_ADDR, value: "127.0.0.1:8080"}
{{- end }}
{{- if .readOnly }}
- {name: POSTRIDER_HTTP_READ_ONLY, value: "true"}
{{- end }}
{{- with .environment }}
- {name: POSTRIDER_HTTP_ENVIRONMENT, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ printf "POSTRIDER_%s" ($name | upper | replace "-" "_") }}, value: {{ include "postrider.setting" $value | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A setting as the environment has it. Large whole numbers must not become 1e+06. */}}
{{- define "postrider.setting" -}}
{{- if kindIs "slice" . }}{{ join "," . }}
{{- else if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}
{{- else }}{{ . }}{{ end }}
{{- end }}

{{- define "postrider.files" -}}
{{- $files := list }}
{{- if .Values.monitor.enabled }}
{{- $files = append $files (dict "name" .Values.monitor.existingSecret "key" .Values.monitor.usersKey "path" "users") }}
{{- end }}
{{- if .Values.nats.credsSecret }}
{{- $files = append $files (dict "name" .Values.nats.credsSecret "key" .Values.nats.credsKey "path" "nats.creds") }}
{{- end }}
{{- if .Values.nats.caSecret }}
{{- $files = append $files (dict "name" .Values.nats.caSecret "key" .Values.nats.caKey "path" "nats-ca.crt") }}
{{- end }}
{{- if not (or $files .Values.nats.contextSecret) }}[]{{ end }}
{{- range $files }}
- secret: {name: {{ .name }}, items: [{key: {{ .key | quote }}, path: {{ .path }}}]}
{{- end }}
{{- with .Values.nats.contextSecret }}
- secret: {name: {{ . }}}
{{- end }}
{{- end }}
