{{- define "seatrial.labels" -}}
app.kubernetes.io/name: seatrial
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "seatrial.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.images.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end -}}

{{- define "seatrial.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "seatrial.environment" -}}
{{- range $name, $value := .Values.environment }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
# A folder of its own user: the mount itself belongs to root.
- {name: SEATRIAL_HOME, value: /data/seatrial}
- {name: SEATRIAL_ARTIFACTS_URL, value: {{ .Values.artifactsUrl | quote }}}
{{- end -}}

{{- define "seatrial.secret" -}}
{secretKeyRef: {name: {{ .root.Values.secret }}, key: {{ .key }}}}
{{- end -}}

{{- define "seatrial.data" -}}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
- name: data
{{- if .Values.artifactsUrl }}
  emptyDir: {}
{{- else }}
  persistentVolumeClaim: {claimName: {{ .Values.volume.existingClaim | default (printf "%s-data" .Release.Name) }}}
{{- end }}
{{- end -}}

{{- define "seatrial.workerPod" -}}
{{- $worker := index .root.Values.workers .kind }}
{{- include "seatrial.pod" .root }}
terminationGracePeriodSeconds: {{ .root.Values.workerGraceSeconds }}
{{- with $worker.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $worker.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
containers:
  - name: worker
    image: {{ $worker.image | default .root.Values.images.worker }}
    command: {{ toJson .command }}
{{ include "seatrial.container" .root | indent 4 }}
    env:
{{ include "seatrial.environment" .root | trim | indent 6 }}
      {{- range $name, $value := $worker.environment }}
      - {name: {{ $name }}, value: {{ $value | quote }}}
      {{- end }}
      - {name: SEATRIAL_DEVICE, value: {{ eq .kind "gpu" | ternary "cuda" "cpu" }}}
      - name: SEATRIAL_DATABASE_URL
        valueFrom: {{ include "seatrial.secret" (dict "root" .root "key" "worker-url") }}
      - name: SEATRIAL_BROKER_URL
        valueFrom: {{ include "seatrial.secret" (dict "root" .root "key" "broker-url") }}
    livenessProbe:
      exec: {command: [seatrial, health]}
      initialDelaySeconds: 60
      periodSeconds: 30
      timeoutSeconds: 10
    resources: {{ toJson $worker.resources }}
    volumeMounts:
      - {name: data, mountPath: /data}
      - {name: tmp, mountPath: /tmp}
volumes:
{{ include "seatrial.data" .root | indent 2 }}
{{- end -}}
