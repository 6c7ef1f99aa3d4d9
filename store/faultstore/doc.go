// Package faultstore wraps any store.RowStore, any store.BlobStore and any
// database/sql driver so that every call is a step at which something may go
// wrong: the request is lost, the reply is lost, the request arrives late, a
// body breaks in the middle, or the process dies.
//
// What goes wrong is decided by an Injector, which sees each step before it is
// taken and may block: that is where a scheduler holds the caller. Package
// blobtxtest explores every order of steps and faults with it; a test of one's
// own may simply count:
//
//	n := 0
//	rows := faultstore.Rows(rows, faultstore.InjectorFunc(func(context.Context, faultstore.Op) faultstore.Fault {
//		if n++; n == 3 {
//			return faultstore.Fault{Kind: faultstore.LoseReply}
//		}
//		return faultstore.Fault{}
//	}))
//
// A lost request and a lost reply look the same to the caller: ErrLost, about
// which nothing is known.
package faultstore
