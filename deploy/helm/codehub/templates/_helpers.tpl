{{- define "codehub.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "codehub.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "codehub.labels" -}}
{{ include "codehub.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "codehub.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "codehub.host" -}}
{{ (urlParse .Values.baseUrl).hostname }}
{{- end }}

{{- define "codehub.isSeparate" -}}
{{- if and (eq .Values.topology "separate") (not .Values.evaluation.enabled) }}yes{{ end -}}
{{- end }}

{{/* Which pods people's connections go to. */}}
{{- define "codehub.frontComponent" -}}
{{ if include "codehub.isSeparate" . }}proxy{{ else }}control-plane{{ end }}
{{- end }}

{{/* Refuse what cannot work, before anything is installed. */}}
{{- define "codehub.validate" -}}
{{- if not .Values.evaluation.enabled }}
{{- range $what, $value := dict "baseUrl" .Values.baseUrl "database.existingSecret" .Values.database.existingSecret "redis.existingSecret" .Values.redis.existingSecret "archive.url" .Values.archive.url }}
{{- if not $value }}{{ fail (printf "%s is needed (or evaluation.enabled=true for a first try)" $what) }}{{ end }}
{{- end }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.baseUrl) }}{{ fail "ingress.enabled needs baseUrl" }}{{ end }}
{{- if and .Values.gateway.enabled (not .Values.baseUrl) }}{{ fail "gateway.enabled needs baseUrl" }}{{ end }}
{{- end }}

{{/* A password that an upgrade keeps: read from the installed Secret if there is one. */}}
{{- define "codehub.kept" -}}
{{- $found := lookup "v1" "Secret" .root.Release.Namespace .name -}}
{{- if and $found (hasKey ($found.data | default dict) .key) }}{{ index $found.data .key | b64dec }}{{ else }}{{ .given | default (randAlphaNum 24) }}{{ end -}}
{{- end }}

{{- define "codehub.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "codehub.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "codehub.scheduling" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Replicas on different nodes where possible. component: the pods' component. */}}
{{- define "codehub.affinity" -}}
{{- if .root.Values.affinity }}
{{- toYaml .root.Values.affinity }}
{{- else -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "codehub.selector" .root | nindent 12 }}
            app.kubernetes.io/component: {{ .component }}
{{- end }}
{{- end }}

{{/* Environment of the control plane: that of every pod, the store's keys, and the first password. */}}
{{- define "codehub.environment" -}}
envFrom:
  - configMapRef: {name: {{ include "codehub.name" . }}}
  {{- if .Values.evaluation.enabled }}
  - secretRef: {name: {{ include "codehub.name" . }}-store}
  {{- else if .Values.archive.existingSecret }}
  - secretRef: {name: {{ .Values.archive.existingSecret }}}
  {{- end }}
env:
  {{- include "codehub.commonEnvironment" . | nindent 2 }}
  - name: CODEHUB_ADMIN_PASSWORD
    valueFrom:
      secretKeyRef:
        name: {{ .Values.admin.existingSecret | default (printf "%s-admin" (include "codehub.name" .)) }}
        key: {{ if .Values.admin.existingSecret }}{{ .Values.admin.key }}{{ else }}password{{ end }}
{{- end }}

{{/* Environment of the proxy's pods: neither the archives' keys nor the first password. */}}
{{- define "codehub.proxyEnvironment" -}}
envFrom:
  - configMapRef: {name: {{ include "codehub.name" . }}}
env:
  {{- include "codehub.commonEnvironment" . | nindent 2 }}
{{- end }}

{{- define "codehub.commonEnvironment" -}}
- name: COORDINATOR_NODE_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: CODEHUB_KUBERNETES_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- if not .Values.evaluation.enabled }}
- name: DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.database.existingSecret }}, key: {{ .Values.database.key }}}}
- name: REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.redis.existingSecret }}, key: {{ .Values.redis.key }}}}
{{- end }}
{{- end }}

{{- define "codehub.probes" -}}
startupProbe:
  httpGet: {path: {{ .live }}, port: http}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 180
livenessProbe:
  httpGet: {path: {{ .live }}, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: {{ .ready }}, port: http}
  periodSeconds: 2
  timeoutSeconds: 3
  failureThreshold: 2
{{- end }}

{{/* A pod that ends is still sent connections until every node knows: it takes them for that long, and then drains. */}}
{{- define "codehub.lifecycle" -}}
lifecycle:
  preStop: {sleep: {seconds: {{ .Values.endDelaySeconds }}}}
{{- end }}
