package store

import (
	"fmt"
	"reflect"
	"time"
)

// A deepener makes what v refers to v's own, after v was copied from another
// value by assignment. It is nil for types that refer to nothing.
type deepener func(v reflect.Value)

// copierOf returns a function that copies a T and all that it refers to. It
// panics for types that records cannot have, such as channels: when the tables
// are defined, not later.
func copierOf[T any]() func(*T) *T {
	deepen := deepenerOf(reflect.TypeFor[T]())
	return func(v *T) *T {
		c := *v
		if deepen != nil {
			deepen(reflect.ValueOf(&c).Elem())
		}
		return &c
	}
}

var (
	timeType = reflect.TypeFor[time.Time]()
	bagType  = reflect.TypeFor[map[string]any]()
)

func deepenerOf(t reflect.Type) deepener {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Struct:
		return structDeepener(t)
	case reflect.Pointer:
		return pointerDeepener(deepenerOf(t.Elem()))
	case reflect.Slice:
		return sliceDeepener(deepenerOf(t.Elem()))
	case reflect.Map:
		return mapDeepener(t)
	case reflect.Interface:
		return func(v reflect.Value) {
			if !v.IsNil() {
				v.Set(reflect.ValueOf(copyJSON(v.Interface())))
			}
		}
	default:
		panic(fmt.Sprintf("store: records cannot hold a %s", t))
	}
}

func structDeepener(t reflect.Type) deepener {
	if t == timeType {
		return nil // its location is shared and never changes
	}
	type field struct {
		i      int
		deepen deepener
	}
	var fields []field
	for i := range t.NumField() {
		if d := deepenerOf(t.Field(i).Type); d != nil {
			fields = append(fields, field{i, d})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			f.deepen(v.Field(f.i))
		}
	}
}

func pointerDeepener(elem deepener) deepener {
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(v.Elem())
		if elem != nil {
			elem(c.Elem())
		}
		v.Set(c)
	}
}

func sliceDeepener(elem deepener) deepener {
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range v.Len() {
			if elem == nil {
				break
			}
			elem(c.Index(i))
		}
		v.Set(c)
	}
}

func mapDeepener(t reflect.Type) deepener {
	if t == bagType {
		return func(v reflect.Value) {
			bag := v.Addr().Interface().(*map[string]any)
			if *bag != nil {
				*bag = copyJSON(*bag).(map[string]any)
			}
		}
	}
	elem := deepenerOf(t.Elem())
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		c := reflect.MakeMapWithSize(t, v.Len())
		for it := v.MapRange(); it.Next(); {
			e := reflect.New(t.Elem()).Elem()
			e.Set(it.Value())
			if elem != nil {
				elem(e)
			}
			c.SetMapIndex(it.Key(), e)
		}
		v.Set(c)
	}
}

// copyJSON copies what JSON decodes into an any.
func copyJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = copyJSON(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = copyJSON(e)
		}
		return c
	default:
		return v
	}
}
