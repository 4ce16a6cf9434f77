// Judges custom resources with Kubernetes' own libraries: reads {schema, new, old} per line, writes what they say.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

type M = map[string]interface{}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func blocking(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	type compiled struct {
		s   *structuralschema.Structural
		v   validation.SchemaValidator
		cel *cel.Validator
	}
	cache := map[string]compiled{}
	for in.Scan() {
		var c struct {
			Define string          `json:"define,omitempty"`
			Schema json.RawMessage `json:"schema,omitempty"`
			Use    string          `json:"use,omitempty"`
			New    json.RawMessage `json:"new,omitempty"`
			Old    json.RawMessage `json:"old,omitempty"`
		}
		must(json.Unmarshal(in.Bytes(), &c))
		if c.Define != "" {
			var ext v1.JSONSchemaProps
			must(json.Unmarshal(c.Schema, &ext))
			internal := &apiextensions.JSONSchemaProps{}
			must(v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&ext, internal, nil))
			s, err := structuralschema.NewStructural(internal)
			must(err)
			v, _, err := validation.NewSchemaValidator(internal)
			must(err)
			cache[c.Define] = compiled{s, v, cel.NewValidator(s, true, celconfig.PerCallLimit)}
			must(out.Encode(M{"define": c.Define, "schema": c.Schema}))
			continue
		}
		k := cache[c.Use]
		prepare := func(raw json.RawMessage) (M, []string) {
			if len(raw) == 0 || string(raw) == "null" {
				return nil, nil
			}
			var o M
			must(utiljson.Unmarshal(raw, &o))
			unknown := pruning.PruneWithOptions(o, k.s, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
			sort.Strings(unknown)
			defaulting.PruneNonNullableNullsWithoutDefaults(o, k.s)
			defaulting.Default(o, k.s)
			return o, unknown
		}
		o, unknown := prepare(c.New)
		old, _ := prepare(c.Old)
		var errs field.ErrorList
		ctx := context.Background()
		if old == nil {
			errs = append(errs, validation.ValidateCustomResource(nil, o, k.v)...)
			errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.s, o)...)
			if k.cel != nil && !blocking(errs) {
				e, _ := k.cel.Validate(ctx, nil, k.s, o, nil, celconfig.RuntimeCELCostBudget)
				errs = append(errs, e...)
			}
		} else {
			co := common.NewCorrelatedObject(o, old, &model.Structural{Structural: k.s})
			errs = append(errs, validation.ValidateCustomResourceUpdate(nil, o, old, k.v, validation.WithRatcheting(co))...)
			if len(listtype.ValidateListSetsAndMaps(nil, k.s, old)) == 0 {
				errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.s, o)...)
			}
			if k.cel != nil && !blocking(errs) {
				e, _ := k.cel.Validate(ctx, nil, k.s, o, old, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(co))
				errs = append(errs, e...)
			}
		}
		causes := []M{}
		for _, e := range errs {
			causes = append(causes, M{"reason": string(e.Type), "field": e.Field, "message": e.ErrorBody()})
		}
		r := M{"use": c.Use, "new": c.New, "unknown": unknown, "object": o, "causes": causes}
		if old != nil {
			r["old"] = c.Old
		}
		must(out.Encode(r))
	}
}
