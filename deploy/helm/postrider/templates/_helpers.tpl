{{- define "postrider.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "postrider.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "postrider.name" .) .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "postrider.name" .) | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "postrider.selector" -}}
app.kubernetes.io/name: {{ include "postrider.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: worker
{{- end }}

{{- define "postrider.labels" -}}
app.kubernetes.io/name: {{ include "postrider.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/part-of: postrider
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{- define "postrider.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "postrider.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{- define "postrider.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Seconds after which fx gives a stop up: twice the drain's bound and 5, as cmd/postrider has it. */}}
{{- define "postrider.stopTimeout" -}}
{{ add (mul 2 (int .Values.drainTimeoutSeconds)) 5 }}
{{- end }}

{{- define "postrider.gracePeriod" -}}
{{- $needed := add (int .Values.preStopSleepSeconds) (int (include "postrider.stopTimeout" .)) 10 -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{ $needed }}
{{- else -}}
{{- $given := int .Values.terminationGracePeriodSeconds -}}
{{- if lt $given (int (sub $needed 5)) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d: it must be at least preStopSleepSeconds + 2 * drainTimeoutSeconds + 10 = %d, or Kubernetes kills workers that still drain" $given (int (sub $needed 5))) -}}
{{- end -}}
{{ $given }}
{{- end -}}
{{- end }}

{{/* What JSON schema cannot say. */}}
{{- define "postrider.check" -}}
{{- if not .Values.database.existingSecret }}{{ fail "database.existingSecret must name the secret that holds the database's URL" }}{{ end -}}
{{- if not (or .Values.nats.url .Values.nats.existingSecret) }}{{ fail "nats.url must be given, or nats.existingSecret name the secret that holds it" }}{{ end -}}
{{- if and .Values.nats.url .Values.nats.existingSecret }}{{ fail "nats.url and nats.existingSecret exclude each other" }}{{ end -}}
{{- if .Values.monitor.enabled -}}
{{- if not .Values.monitor.existingSecret }}{{ fail "monitor.existingSecret must name the secret with the monitor's credentials: it does not listen beyond the pod without; or set monitor.enabled to false" }}{{ end -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.monitor.enabled) }}{{ fail "serviceMonitor.enabled needs monitor.enabled: nothing else can be scraped" }}{{ end -}}
{{- if and .Values.migrate.enabled (not .Values.migrate.existingSecret) }}{{ fail "migrate.existingSecret must name the secret with the URL of the role that owns the tables" }}{{ end -}}
{{- if ne .Values.autoscaling.kind "none" -}}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) }}{{ fail "autoscaling.minReplicas must not be above autoscaling.maxReplicas" }}{{ end -}}
{{- if and (eq .Values.autoscaling.kind "keda") (not .Values.autoscaling.prometheusAddress) }}{{ fail "autoscaling.prometheusAddress must be given for keda" }}{{ end -}}
{{- end -}}
{{- $most := ternary (int .Values.replicaCount) (int .Values.autoscaling.maxReplicas) (eq .Values.autoscaling.kind "none") -}}
{{- if gt $most 32 }}{{ fail (printf "%d workers: one stream takes the atomic batches of 32; use fewer" $most) }}{{ end -}}
{{- end }}

{{- define "postrider.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "postrider.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Selects this outbox's metrics. */}}
{{- define "postrider.series" -}}
namespace="{{ .Release.Namespace }}", job="{{ include "postrider.fullname" . }}"
{{- end }}
