// Package object provides shared values, and manages the keys of any object of package
// holdfast.
//
// An [AtomicLong] is a number and a [Bucket] is a value of any type. An [IDGenerator] and a
// [TimeID] generate unique numbers. They use the same keys and channels as Redisson (Java).
//
//	config := object.NewBucket(client, "config", object.JSONCodec[Config]{})
//	if err := config.Set(ctx, Config{Workers: 4}, time.Hour); err != nil {
//		return err
//	}
//
// [Of] returns a lock or another synchronizer as an [Object], which inspects, deletes and
// renames its keys, and sets its TTL:
//
//	existed, err := object.Of(client.Semaphore("downloads")).Delete(ctx)
//
// Errors have the type [*holdfast.Error], or [*holdfast.LostError].
package object
