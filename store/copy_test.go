package store

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCopies fills every field of the cached types and holds that a copy is
// equal and shares nothing.
func TestCopies(t *testing.T) {
	checkCopy[Node](t)
	checkCopy[Port](t)
	checkCopy[User](t)
	checkCopy[Token](t)
	checkCopy[Run](t)
	checkCopy[Message](t)
}

func checkCopy[T any](t *testing.T) {
	t.Helper()
	v, want := new(T), new(T)
	populate(reflect.ValueOf(v).Elem(), 0)
	populate(reflect.ValueOf(want).Elem(), 0)
	c := copierOf[T]()(v)
	if diff := cmp.Diff(v, c); diff != "" {
		t.Errorf("copy of %T differs:\n%s", v, diff)
	}
	overwrite(reflect.ValueOf(c).Elem())
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("the copy of %T shares with the original:\n%s", v, diff)
	}
}

// populate gives v and all in it a value.
func populate(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		populate(v.Index(0), depth)
		populate(v.Index(1), depth)
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		populate(e, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{"a": []any{"b", map[string]any{"c": 1.0}}, "n": nil}))
	case reflect.Struct:
		if v.Type() == timeType {
			v.Set(reflect.ValueOf(time.Unix(7, 0).UTC()))
			return
		}
		for i := range v.NumField() {
			populate(v.Field(i), depth+1)
		}
	}
}

// overwrite changes everything that v refers to, in place.
func overwrite(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Elem().SetZero()
	case reflect.Slice:
		for i := range v.Len() {
			overwrite(v.Index(i))
			v.Index(i).SetZero()
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			overwrite(v.MapIndex(k))
			v.SetMapIndex(k, reflect.Zero(v.Type().Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			overwrite(v.Elem())
		}
	case reflect.Struct:
		if v.Type() != timeType {
			for i := range v.NumField() {
				overwrite(v.Field(i))
			}
		}
	}
}
