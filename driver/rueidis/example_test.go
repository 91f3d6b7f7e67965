package rueidis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Each new connection asks for the current credentials, for example a token that
// expires.
func ExampleConfig_credentials() {
	ctx := context.Background()
	token := func(context.Context) (string, error) { return "", nil } // of a cloud provider

	config := rueidis.Config{
		Addr: redistest.Shared(redistest.Example).Addr(),
		Credentials: func(ctx context.Context, _ rueidis.Peer) (string, rueidis.Secret, error) {
			t, err := token(ctx)
			return "", rueidis.Secret(t), err
		},
	}
	d, err := rueidis.Open(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	client, err := holdfast.New(d, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Mutex("example:rotation").Do(ctx, func(context.Context) error {
		fmt.Println("the lock is held, also while the token changes")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: the lock is held, also while the token changes
}
