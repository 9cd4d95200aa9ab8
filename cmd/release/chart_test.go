package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/santhosh-tekuri/jsonschema/v6"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write "+plainFile+" anew")

const (
	chartDir  = "deploy/helm/polystalk"
	plainFile = "deploy/kubernetes/polystalk.yaml"
)

// A values is a tree of the chart's settings.
type values = map[string]any

// A chartMeta has the parts of Chart.yaml that templates use.
type chartMeta struct{ Name, Version, AppVersion string }

// merge puts the settings of over into base, as helm does: null removes a setting.
func merge(base, over values) values {
	out := maps.Clone(base)
	for k, v := range over {
		below, ok := out[k].(values)
		tree, is := v.(values)
		switch {
		case v == nil:
			delete(out, k)
		case ok && is:
			out[k] = merge(below, tree)
		default:
			out[k] = v
		}
	}
	return out
}

// readYAML decodes a file of the chart.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	must(t, yaml.UnmarshalStrict(text, into))
}

// render returns the objects of the chart, as helm does: text/template runs the templates, with the
// functions of sprig, include and toYaml. Helm's own engine would bring the client of Kubernetes
// along, two hundred packages more.
func render(t *testing.T, release string, over values) (string, error) {
	t.Helper()
	var meta chartMeta
	var defaults values
	readYAML(t, chartDir+"/values.yaml", &defaults)
	text, err := os.ReadFile(chartDir + "/Chart.yaml")
	must(t, err)
	must(t, yaml.Unmarshal(text, &meta))
	given, err := json.Marshal(merge(defaults, over)) // numbers are floats, as they are for helm
	must(t, err)
	var settings values
	must(t, json.Unmarshal(given, &settings))
	schema, err := jsonschema.NewCompiler().Compile(chartDir + "/values.schema.json")
	must(t, err)
	if err := schema.Validate(settings); err != nil {
		return "", err
	}
	all := template.New("").Option("missingkey=error").Funcs(sprig.TxtFuncMap())
	all.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := all.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
	})
	_, err = all.ParseGlob(chartDir + "/templates/*.*")
	must(t, err)
	data := values{"Values": settings, "Chart": meta, "Release": values{"Name": release, "Namespace": "default"}}
	var objects []string
	files, err := filepath.Glob(chartDir + "/templates/*")
	must(t, err)
	for _, file := range files {
		var b strings.Builder
		if err := all.ExecuteTemplate(&b, filepath.Base(file), data); err != nil {
			return "", err
		}
		if text := strings.TrimSpace(b.String()); strings.HasSuffix(file, ".yaml") && text != "" {
			objects = append(objects, text+"\n")
		}
	}
	return strings.Join(objects, "---\n"), nil
}

// A serviceMonitor has the used fields of the Prometheus operator's ServiceMonitor.
type serviceMonitor struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port, Path, Interval string
			Relabelings          []struct{ TargetLabel, Replacement string }
		} `json:"endpoints"`
	} `json:"spec"`
}

// The manifests are the objects of one rendering.
type manifests struct {
	set      *appsv1.StatefulSet
	services map[string]*corev1.Service
	policy   *networkingv1.NetworkPolicy
	budget   *policyv1.PodDisruptionBudget
	monitor  *serviceMonitor
}

// decode reads objects. Unknown fields and fields that occur twice are errors.
func decode(text string) (*manifests, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme, serializer.SerializerOptions{Yaml: true, Strict: true})
	m := &manifests{services: make(map[string]*corev1.Service)}
	for text := range strings.SplitSeq(text, "---\n") {
		if strings.Contains(text, "\nkind: ServiceMonitor\n") {
			m.monitor = new(serviceMonitor)
			if err := yaml.UnmarshalStrict([]byte(text), m.monitor); err != nil {
				return nil, err
			}
			continue
		}
		object, _, err := strict.Decode([]byte(text), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w:\n%s", err, text)
		}
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			m.set = o
		case *corev1.Service:
			m.services[o.Name] = o
		case *networkingv1.NetworkPolicy:
			m.policy = o
		case *policyv1.PodDisruptionBudget:
			m.budget = o
		default:
			return nil, fmt.Errorf("an object of type %T", o)
		}
	}
	if m.set == nil || m.budget == nil || len(m.services) != 2 {
		return nil, errors.New("there is no StatefulSet, no PodDisruptionBudget, or no two Services")
	}
	return m, nil
}

// everything sets each of the chart's values.
var everything = values{
	"replicas": 5, "maxJobSize": 1 << 20, "extraArgs": []any{"--log-format", "json"},
	"image":            values{"tag": "9.9.9"},
	"imagePullSecrets": []any{values{"name": "registry"}},
	"gearman":          values{"enabled": true},
	"http":             values{"anonymous": "operate"},
	"accessSecret":     "access",
	"tls":              values{"secret": "certs"},
	"storage":          values{"size": "1Ti", "className": "fast"},
	"serviceMonitor":   values{"enabled": true},
	"networkPolicy":    values{"clients": []any{values{"namespaceSelector": values{}}}, "operators": []any{values{"ipBlock": values{"cidr": "10.0.0.0/8"}}}},
	"nodeSelector":     values{"disk": "ssd"},
	"tolerations":      []any{values{"key": "jobs", "operator": "Exists"}},
}

// TestChartFitsTogether: selectors find what they are for, ports and volumes exist, and the server
// accepts the flags of every pod.
func TestChartFitsTogether(t *testing.T) {
	for name, over := range map[string]values{
		"defaults": nil, "everything": everything, "one server": {"replicas": 1},
		"no policy": {"networkPolicy": values{"enabled": false}},
	} {
		t.Run(name, func(t *testing.T) {
			release := "polystalk"
			if name == "everything" {
				release = strings.Repeat("jobs-", 10) + "end" // the longest that helm allows
			}
			text, err := render(t, release, over)
			must(t, err)
			m, err := decode(text)
			must(t, err)
			m.check(t)
			for i := range int(*m.set.Spec.Replicas) {
				m.checkPod(t, i)
			}
			if (m.policy != nil) == (name == "no policy") || (m.monitor != nil) != (name == "everything") {
				t.Errorf("there is a NetworkPolicy: %t, a ServiceMonitor: %t", m.policy != nil, m.monitor != nil)
			}
		})
	}
}

// check compares the objects with each other.
func (m *manifests) check(t *testing.T) {
	t.Helper()
	pod := m.set.Spec.Template
	c := pod.Spec.Containers[0]
	selects := func(what string, labels, of map[string]string) {
		t.Helper()
		for k, v := range labels {
			if of[k] != v {
				t.Errorf("%s: it selects %s=%s, and the labels are %v", what, k, v, of)
			}
		}
		if len(labels) == 0 {
			t.Errorf("%s selects everything", what)
		}
	}
	ports := make(map[string]int32)
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	selects("StatefulSet", m.set.Spec.Selector.MatchLabels, pod.Labels)
	selects("PodDisruptionBudget", m.budget.Spec.Selector.MatchLabels, pod.Labels)
	for name, s := range m.services {
		selects("Service "+name, s.Spec.Selector, pod.Labels)
		for _, p := range s.Spec.Ports {
			if ports[p.TargetPort.StrVal] != p.Port {
				t.Errorf("Service %s: port %d goes to %q", name, p.Port, p.TargetPort.StrVal)
			}
		}
		if peers := name == m.set.Spec.ServiceName; peers != (s.Spec.ClusterIP == "None") || peers != s.Spec.PublishNotReadyAddresses {
			t.Errorf("Service %s: %+v", name, s.Spec)
		}
	}
	if m.services[m.set.Spec.ServiceName] == nil {
		t.Errorf("there is no Service %s", m.set.Spec.ServiceName)
	}
	if m.policy != nil {
		selects("NetworkPolicy", m.policy.Spec.PodSelector.MatchLabels, pod.Labels)
		allowed := make(map[string]int32)
		for _, rule := range m.policy.Spec.Ingress {
			for _, p := range rule.Ports {
				allowed[p.Port.StrVal] = ports[p.Port.StrVal]
			}
			if len(rule.From) == 0 {
				t.Errorf("everybody may connect to %v", rule.Ports)
			}
		}
		if !maps.Equal(allowed, ports) {
			t.Errorf("the NetworkPolicy is about %v, the ports are %v", allowed, ports)
		}
	}
	if m.monitor != nil {
		found := 0
		for _, s := range m.services {
			matches := func(k, v string) bool { return s.Labels[k] == v }
			all := true
			for k, v := range m.monitor.Spec.Selector.MatchLabels {
				all = all && matches(k, v)
			}
			if all {
				found++
				e := m.monitor.Spec.Endpoints[0]
				if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == e.Port }) || e.Path != "/metrics" {
					t.Errorf("the ServiceMonitor reads %+v of %s", e, s.Name)
				}
			}
		}
		if found != 1 {
			t.Errorf("the ServiceMonitor selects %d Services", found)
		}
	}
	volumes := make(map[string]bool)
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		if s := v.Secret; s == nil || *s.DefaultMode != 0o440 {
			t.Errorf("volume %s: %+v", v.Name, s)
		}
	}
	for _, v := range m.set.Spec.VolumeClaimTemplates {
		volumes[v.Name] = true
	}
	for _, v := range c.VolumeMounts {
		if !volumes[v.Name] {
			t.Errorf("there is no volume %s", v.Name)
		}
		delete(volumes, v.Name)
	}
	if len(volumes) > 0 {
		t.Errorf("nothing uses the volumes %v", volumes)
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if ports[p.HTTPGet.Port.StrVal] != 11380 {
			t.Errorf("a probe asks port %v", p.HTTPGet.Port)
		}
	}
	if n := len(m.set.Name + "-" + strings.Repeat("x", 10)); n > 63 {
		t.Errorf("a label with the name of the StatefulSet and a hash has %d bytes", n)
	}
	if s := pod.Spec.SecurityContext; *s.RunAsUser != imageUser || *s.FSGroup != imageUser {
		t.Errorf("it runs as %+v, and the image as %d", s, imageUser)
	}
}

// checkPod gives the flags of the pod with that number to the server.
func (m *manifests) checkPod(t *testing.T, number int) {
	t.Helper()
	pod := fmt.Sprintf("%s-%d", m.set.Name, number)
	c := m.set.Spec.Template.Spec.Containers[0]
	var args []string
	for _, a := range c.Args {
		args = append(args, strings.ReplaceAll(a, "$(POD_NAME)", pod))
	}
	with := func(flag string) string {
		for _, a := range args {
			if v, ok := strings.CutPrefix(a, "--"+flag+"="); ok {
				return v
			}
		}
		return ""
	}
	var want []string
	for i := range int(*m.set.Spec.Replicas) {
		want = append(want, fmt.Sprintf("%s-%d.%s:11390", m.set.Name, i, m.set.Spec.ServiceName))
	}
	if got := with("cluster-bootstrap"); got != strings.Join(want, ",") || with("cluster-advertise") != want[number] {
		t.Errorf("%s: the list is %s, its address is %s, want %q", pod, got, with("cluster-advertise"), want)
	}
	s := newContainer(t, pod)
	s.env = append(s.env, imageConfig(&Source{}).Env...)
	s.args = args
	if got := s.check(t); got != "" {
		t.Errorf("%s: %q: %s", pod, args, got)
	}
}

// TestPlainManifestsAreTheChart with its defaults.
func TestPlainManifestsAreTheChart(t *testing.T) {
	text, err := render(t, "polystalk", nil)
	must(t, err)
	text = "# What the chart ../helm/polystalk makes with its defaults. Set the image before you apply it.\n" +
		"# A test writes this file: go -C cmd/release test . -run PlainManifests -rewrite\n---\n" + text
	if *rewrite {
		must(t, os.WriteFile(plainFile, []byte(text), 0o644))
	}
	if got, err := os.ReadFile(plainFile); err != nil || string(got) != text {
		t.Errorf("%s is not what the chart makes: go -C cmd/release test . -run PlainManifests -rewrite (%v)", plainFile, err)
	}
	version, err := os.ReadFile(filepath.Join("..", "..", versionFile))
	must(t, err)
	if want := ":" + string(bytes.TrimSpace(version)) + "\"\n"; !strings.Contains(text, want) {
		t.Errorf("%s/Chart.yaml has another version than %s, %q", chartDir, versionFile, want)
	}
}

// TestWrongValuesAreNamed, with what is right.
func TestWrongValuesAreNamed(t *testing.T) {
	for _, tt := range []struct {
		over values
		want []string
	}{
		{values{"replicas": 2}, []string{"/replicas", "one of 1, 3, 5"}},
		{values{"replicas": 0}, []string{"/replicas", "one of 1, 3, 5"}},
		{values{"replicas": "3"}, []string{"/replicas", "one of 1, 3, 5"}},
		{values{"replica": 3}, []string{"'replica' not allowed"}},
		{values{"tls": values{"secret": nil}}, []string{"/tls", "'secret'"}},
		{values{"tls": values{"secretName": "x"}}, []string{"/tls", "'secretName' not allowed"}},
		{values{"tls": values{"secret": "No Secret"}}, []string{"/tls/secret", "does not match pattern"}},
		{values{"http": values{"anonymous": "admin"}}, []string{"/http/anonymous", "'none', 'read', 'operate'"}},
		{values{"maxJobSize": "64k"}, []string{"/maxJobSize", "want integer"}},
		{values{"extraArgs": "--user x"}, []string{"/extraArgs", "want array"}},
		{values{"storage": values{"size": "10 GB"}}, []string{"/storage/size", "does not match pattern"}},
		{values{"serviceMonitor": values{"enabled": true}, "http": values{"anonymous": "none"}}, []string{"serviceMonitor.enabled needs http.anonymous=read"}},
	} {
		_, err := render(t, "jobs", tt.over)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, without %q", tt.over, err, want)
			}
		}
	}
}

// TestManifestFaultsAreFound: an object with an unknown field is none.
func TestManifestFaultsAreFound(t *testing.T) {
	text, err := render(t, "jobs", everything)
	must(t, err)
	for _, tt := range []struct{ from, to string }{
		{"  serviceName:", "  servicename:"}, {"replicas: 5\n", "replicas: 5\n  replicas: 3\n"}, {"periodSeconds: 10", "period: 10"},
		{"maxUnavailable: 1", "maxUnavailble: 1"}, {"interval: ", "intervals: "}, {"policyTypes:", "types:"}, {"kind: Service\n", "kind: Servce\n"},
	} {
		changed := strings.Replace(text, tt.from, tt.to, 1)
		if _, err := decode(changed); err == nil || changed == text {
			t.Errorf("%q in place of %q is not found", tt.to, tt.from)
		}
	}
}
