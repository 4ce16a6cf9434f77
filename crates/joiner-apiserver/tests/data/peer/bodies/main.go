// Reads objects with Kubernetes' own decoder and records what it makes of them: complaints, and the object with defaults.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
)

func main() {
	strict := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, jsonserializer.SerializerOptions{Strict: true})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var c struct {
			Body string `json:"body"`
		}
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			panic(err)
		}
		r := map[string]interface{}{"body": c.Body}
		obj, gvk, err := strict.Decode([]byte(c.Body), nil, nil)
		if err != nil {
			r["error"] = err.Error()
			r["strict"] = runtime.IsStrictDecodingError(err)
		}
		if obj != nil && (err == nil || runtime.IsStrictDecodingError(err)) {
			legacyscheme.Scheme.Default(obj)
			hub, cerr := legacyscheme.Scheme.ConvertToVersion(obj, runtime.InternalGroupVersioner)
			if cerr != nil {
				panic(cerr)
			}
			back, cerr := legacyscheme.Scheme.ConvertToVersion(hub, gvk.GroupVersion())
			if cerr != nil {
				panic(cerr)
			}
			r["object"] = back
		}
		if err := out.Encode(r); err != nil {
			panic(err)
		}
	}
}
