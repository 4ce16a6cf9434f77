// Draws objects, patches and sequences of writes, and records what Kubernetes' own libraries make of them.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

type M = map[string]interface{}
type L = []interface{}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func models(dir string) map[string]*spec.Schema {
	all := map[string]*spec.Schema{}
	files, _ := filepath.Glob(dir + "/*.json")
	sort.Strings(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		must(err)
		var d struct {
			Components struct {
				Schemas map[string]*spec.Schema `json:"schemas"`
			} `json:"components"`
		}
		must(json.Unmarshal(b, &d))
		for k, v := range d.Components.Schemas {
			all[k] = v
		}
	}
	return all
}

var r *rand.Rand

func chance(p float64) bool { return r.Float64() < p }
func pick(s ...string) string { return s[r.Intn(len(s))] }
func subset(s ...string) []string {
	out := []string{}
	for _, i := range r.Perm(len(s)) {
		if chance(0.5) {
			out = append(out, s[i])
		}
	}
	return out
}
func strmap(keys ...string) M {
	m := M{}
	for _, k := range subset(keys...) {
		m[k] = pick("1", "2")
	}
	return m
}

func container(name string) M {
	c := M{"name": name}
	if chance(0.7) {
		c["image"] = pick("x", "y")
	}
	if chance(0.3) {
		c["args"] = L{pick("1", "2")}
	}
	if chance(0.5) {
		env := L{}
		for _, n := range subset("E", "F", "G") {
			e := M{"name": n}
			if chance(0.8) {
				e["value"] = pick("1", "2")
			}
			env = append(env, e)
		}
		c["env"] = env
	}
	if chance(0.4) {
		ports := L{}
		for _, n := range subset("80", "81") {
			p := M{"containerPort": int64(80)}
			if n == "81" {
				p["containerPort"] = int64(81)
			}
			if chance(0.5) {
				p["protocol"] = "TCP"
			}
			if chance(0.4) {
				p["name"] = pick("p", "q")
			}
			ports = append(ports, p)
		}
		c["ports"] = ports
	}
	if chance(0.3) {
		c["resources"] = M{"limits": strmap("cpu", "memory")}
	}
	return c
}

func object() M {
	meta := M{"name": "d", "namespace": "default"}
	if chance(0.5) {
		meta["labels"] = strmap("a", "b")
	}
	if chance(0.4) {
		l := L{}
		for _, n := range subset("x.io/a", "x.io/b", "x.io/c") {
			l = append(l, n)
		}
		meta["finalizers"] = l
	}
	pod := M{}
	if chance(0.8) {
		cs := L{}
		for _, n := range subset("a", "b", "c", "d") {
			cs = append(cs, container(n))
		}
		pod["containers"] = cs
	}
	if chance(0.3) {
		pod["tolerations"] = L{M{"key": pick("k", "l")}}
	}
	if chance(0.3) {
		pod["nodeSelector"] = strmap("n", "m")
	}
	if chance(0.3) {
		vs := L{}
		for _, n := range subset("v", "w") {
			v := M{"name": n}
			if chance(0.5) {
				v["emptyDir"] = M{}
			} else {
				v["configMap"] = M{"name": pick("c", "d")}
			}
			vs = append(vs, v)
		}
		pod["volumes"] = vs
	}
	tmpl := M{"spec": pod}
	if chance(0.4) {
		tmpl["metadata"] = M{"labels": strmap("app", "tier")}
	}
	sp := M{"template": tmpl}
	if chance(0.5) {
		sp["replicas"] = int64(r.Intn(3))
	}
	if chance(0.3) {
		sp["selector"] = M{"matchLabels": strmap("app")}
	}
	if chance(0.3) {
		sp["strategy"] = M{"type": pick("Recreate", "RollingUpdate")}
	}
	return M{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": sp}
}

func clone(v interface{}) M {
	b, err := json.Marshal(v)
	must(err)
	u := &unstructured.Unstructured{}
	_ = u
	var m M
	must(json.Unmarshal(b, &m))
	return fixInts(m).(M)
}

func fixInts(v interface{}) interface{} {
	switch t := v.(type) {
	case map[string]interface{}:
		for k := range t {
			t[k] = fixInts(t[k])
		}
		return t
	case []interface{}:
		for i := range t {
			t[i] = fixInts(t[i])
		}
		return t
	case float64:
		return int64(t)
	}
	return v
}

func normalise(o M) M {
	o = clone(o)
	if meta, ok := o["metadata"].(M); ok {
		if mf, ok := meta["managedFields"].(L); ok {
			for _, e := range mf {
				delete(e.(M), "time")
			}
			sort.SliceStable(mf, func(i, j int) bool {
				a, b := mf[i].(M), mf[j].(M)
				return fmt.Sprint(a["operation"], a["manager"]) < fmt.Sprint(b["operation"], b["manager"])
			})
		}
	}
	return o
}

func applyCases(n int, out *json.Encoder, tc managedfields.TypeConverter) {
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for i := 0; i < n; i++ {
		r = rand.New(rand.NewSource(int64(1000 + i)))
		fm := managedfieldstest.NewTestFieldManager(tc, gvk)
		steps := L{}
		count := 2 + r.Intn(5)
		for s := 0; s < count; s++ {
			manager := pick("m1", "m2", "m3")
			force := chance(0.5)
			op := "apply"
			if s > 0 && chance(0.35) {
				op = "update"
			}
			o := object()
			var err error
			if op == "apply" {
				err = fm.Apply(&unstructured.Unstructured{Object: clone(o)}, manager, force)
			} else {
				if chance(0.5) {
					// a small change of the live object
					live := clone(fm.Live().(*unstructured.Unstructured).Object)
					delete(live["metadata"].(M), "managedFields")
					sp := live["spec"].(M)
					switch r.Intn(3) {
					case 0:
						sp["replicas"] = int64(r.Intn(5))
					case 1:
						delete(sp, "replicas")
						live["metadata"].(M)["labels"] = strmap("a", "b", "c")
					case 2:
						sp["template"].(M)["spec"] = object()["spec"].(M)["template"].(M)["spec"]
					}
					o = live
				}
				err = fm.Update(&unstructured.Unstructured{Object: clone(o)}, manager)
			}
			step := M{"op": op, "manager": manager, "object": o}
			if op == "apply" {
				step["force"] = force
			}
			if err != nil {
				step["error"] = err.Error()
			}
			step["result"] = normalise(fm.Live().(*unstructured.Unstructured).Object)
			steps = append(steps, step)
		}
		must(out.Encode(M{"steps": steps}))
	}
}

func patchOf() M {
	o := object()
	delete(o, "apiVersion")
	delete(o, "kind")
	meta := o["metadata"].(M)
	delete(meta, "name")
	delete(meta, "namespace")
	pod := o["spec"].(M)["template"].(M)["spec"].(M)
	if cs, ok := pod["containers"].(L); ok {
		for _, c := range cs {
			if chance(0.15) {
				c.(M)["$patch"] = "delete"
			} else if chance(0.2) {
				c.(M)["args"] = nil
			}
			if env, ok := c.(M)["env"].(L); ok && len(env) > 0 && chance(0.3) {
				env[r.Intn(len(env))].(M)["$patch"] = "delete"
			}
		}
		if chance(0.1) {
			cs = append(cs, M{"$patch": "replace"})
			pod["containers"] = cs
		} else if chance(0.3) {
			order := L{}
			for _, c := range cs {
				if _, gone := c.(M)["$patch"]; !gone {
					order = append(order, M{"name": c.(M)["name"]})
				}
			}
			if chance(0.5) {
				order = append(order, M{"name": pick("a", "b", "c", "d")})
			}
			pod["$setElementOrder/containers"] = order
		}
	}
	if vs, ok := pod["volumes"].(L); ok {
		for _, v := range vs {
			if chance(0.5) {
				keys := L{}
				for k := range v.(M) {
					keys = append(keys, k)
				}
				sort.Slice(keys, func(i, j int) bool { return keys[i].(string) < keys[j].(string) })
				v.(M)["$retainKeys"] = keys
			}
		}
	}
	if chance(0.2) {
		meta["$deleteFromPrimitiveList/finalizers"] = L{"x.io/a"}
		delete(meta, "finalizers")
	}
	if _, ok := meta["finalizers"]; ok && chance(0.3) {
		meta["$setElementOrder/finalizers"] = clone(M{"x": meta["finalizers"]})["x"]
	}
	if chance(0.1) {
		o["spec"].(M)["replicas"] = nil
	}
	if chance(0.1) {
		o["spec"].(M)["template"].(M)["metadata"] = M{"$patch": pick("replace", "delete"), "labels": strmap("app")}
	}
	if st, ok := o["spec"].(M)["strategy"].(M); ok && chance(0.5) {
		st["$retainKeys"] = L{"type"}
	}
	return o
}

func patchCases(n int, out *json.Encoder) {
	for i := 0; i < n; i++ {
		r = rand.New(rand.NewSource(int64(i)))
		doc, patch := object(), patchOf()
		step := M{"doc": clone(doc), "patch": clone(patch)}
		res, err := strategicpatch.StrategicMergeMapPatch(clone(doc), clone(patch), appsv1.Deployment{})
		if err != nil {
			step["error"] = err.Error()
		} else {
			step["result"] = clone(res)
		}
		must(out.Encode(step))
	}
}

func count(arg, otherwise int) int {
	if len(os.Args) > arg {
		n, err := strconv.Atoi(os.Args[arg])
		must(err)
		return n
	}
	return otherwise
}

func main() {
	tc, err := managedfields.NewTypeConverter(models(os.Args[1]), false)
	must(err)
	f, err := os.Create(os.Args[2] + "/apply.jsonl")
	must(err)
	applyCases(count(4, 600), json.NewEncoder(f), tc)
	f, err = os.Create(os.Args[2] + "/strategic.jsonl")
	must(err)
	patchCases(count(3, 2000), json.NewEncoder(f))
}
