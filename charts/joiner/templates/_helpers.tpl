{{/* The name in labels. */}}
{{- define "joiner.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of all objects: the release's, so that a release `karpenter` makes a Deployment `karpenter`. */}}
{{- define "joiner.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What selects the pods. */}}
{{- define "joiner.selectorLabels" -}}
app.kubernetes.io/name: {{ include "joiner.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "joiner.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{ include "joiner.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ include "joiner.entries" (dict "prefix" "" "map" .) }}
{{- end }}
{{- end -}}

{{/* Texts by name. `--set 'a."b.c/d"=e'` arrives as a map in a map with the quotes in its names; what was meant is put together again. */}}
{{- define "joiner.entries" -}}
{{- $prefix := .prefix -}}
{{- $first := true -}}
{{- range $name, $value := .map }}
{{- if $first }}{{ $first = false }}{{ else }}{{ "\n" }}{{ end }}
{{- if kindIs "map" $value }}
{{- include "joiner.entries" (dict "prefix" (printf "%s%s." $prefix $name) "map" $value) }}
{{- else }}
{{- printf "%s%s" $prefix $name | replace "\"" "" | quote }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The account of the pods. */}}
{{- define "joiner.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "joiner.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The image, by digest if there is one. */}}
{{- define "joiner.image" -}}
{{- with .Values.controller.image -}}
{{- if .digest -}}
{{- printf "%s:%s@%s" .repository (default $.Chart.AppVersion .tag | toString) .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag | toString) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name, labels and annotations. */}}
{{- define "joiner.metadata" -}}
name: {{ .name }}
{{- if .namespace }}
namespace: {{ .namespace }}
{{- end }}
labels:
  {{- include "joiner.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- include "joiner.entries" (dict "prefix" "" "map" .) | nindent 2 }}
  {{- end }}
{{- if or .root.Values.additionalAnnotations .annotations }}
annotations:
  {{- with .root.Values.additionalAnnotations }}
  {{- include "joiner.entries" (dict "prefix" "" "map" .) | nindent 2 }}
  {{- end }}
  {{- with .annotations }}
  {{- include "joiner.entries" (dict "prefix" "" "map" .) | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Gates as text. */}}
{{- define "joiner.featureGates" -}}
{{- with .Values.settings.featureGates -}}
{{- printf "NodeRepair=%v,ReservedCapacity=%v,SpotToSpotConsolidation=%v,NodeOverlay=%v,StaticCapacity=%v,CapacityBuffer=%v" (eq (toString .nodeRepair) "true") (ne (toString .reservedCapacity) "false") (eq (toString .spotToSpotConsolidation) "true") (eq (toString .nodeOverlay) "true") (eq (toString .staticCapacity) "true") (eq (toString .capacityBuffer) "true") -}}
{{- end -}}
{{- end -}}
