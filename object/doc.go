// Package object provides shared values, and manages the keys of any object of package
// holdfast.
//
// An [AtomicLong] is a number and a [Bucket] is a value of any type. An [IDGenerator]
// and a [TimeID] generate unique numbers. They use the same keys and channels as
// Redisson (Java).
//
//	config := object.NewBucket(client, "config", object.JSONCodec[Config]{})
//	if err := config.Set(ctx, Config{Workers: 4}, time.Hour); err != nil {
//		return err
//	}
//
// [Of] returns a lock or another synchronizer as an [Object], which inspects, deletes
// and renames its keys, and sets its TTL:
//
//	existed, err := object.Of(client.Semaphore("downloads")).Delete(ctx)
//
// The name of a value or a generator is its key on the server, and follows the rules of
// [holdfast.Client.Mutex]. All methods are safe for concurrent use.
//
// A change of a value or an object is made once, even if the request has to be sent
// several times because an answer is lost: the server recognizes a repeated request for
// ten minutes, and returns the first answer. [AtomicLong.Store], [Bucket.Set],
// [Bucket.SetKeepTTL] and [Bucket.GetAndExpire] are simply sent again, which may
// overwrite what another process has set in between. If an error matches
// [holdfast.ErrUnavailable], it is not known whether the change was made.
//
// Errors have the type [*holdfast.Error], or [*holdfast.LostError].
package object
