package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
)

func ExampleClient_Check() {
	client := connect()
	defer client.Close()

	fit := func(ctx context.Context) error {
		found, err := client.Check(ctx, "app:orders") // some names, if the user may not use all keys
		if err != nil {
			return err // it could not be done at all
		}
		for _, f := range found {
			log.Println(f)
		}
		if len(found) > 0 && found[0].Severity == holdfast.Danger { // the worst comes first
			return errors.New("the server is not fit for locks")
		}
		return nil
	}
	fmt.Println(fit(context.Background()))
	// Output: <nil>
}
