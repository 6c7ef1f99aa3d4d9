package blobtxtest

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/store"
)

// A field that is not digested makes two states one, and hides what only one
// of them leads to: every field of every row and reply counts.
func TestEveryFieldIsDigested(t *testing.T) {
	for _, reply := range []any{store.Intent{}, store.Object{}, store.Blob{}, store.BlobInfo{}, store.Claimed{}} {
		digests(t, reply, func(v reflect.Value) digest {
			h := newHasher()
			var d digest
			h.reply(&d, v.Interface())
			require.False(t, h.opaque)
			return d
		})
	}
	digests(t, store.Retired{}, func(v reflect.Value) digest {
		r := v.Interface().(store.Retired)
		var d digest
		newHasher().retired(&d, &r)
		return d
	})
}

// digests sets each field in turn and requires another digest.
func digests(t *testing.T, zero any, of func(reflect.Value) digest) {
	typ := reflect.TypeOf(zero)
	seen := map[digest]string{of(reflect.Zero(typ)): "the zero value"}
	for _, f := range reflect.VisibleFields(typ) {
		if f.Anonymous {
			continue
		}
		v := reflect.New(typ).Elem()
		fill(t, v.FieldByIndex(f.Index))
		if typ == reflect.TypeFor[store.Blob]() && f.Name == "ETag" {
			continue // of a reply of Create: which creation of its name it is
		}
		d := of(v)
		require.NotContains(t, seen, d, "%s.%s is not digested", typ, f.Name)
		seen[d] = f.Name
	}
}

func fill(t *testing.T, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(5, 0)
		return
	case *store.Condition:
		*x = store.Always()
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		fill(t, v.Field(0))
	default:
		t.Fatalf("a field of kind %s: teach this test", v.Kind())
	}
}
