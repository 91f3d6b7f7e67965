package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
)

// One of many processes leads; all of them, and others too, see which.
func ExampleElection_Campaign() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client := connect()
	defer client.Close()
	election := client.Election("example:scheduler")

	observing := make(chan bool)
	go func() { // as another process would
		defer close(observing)
		for leader, err := range election.Observe(ctx) {
			switch {
			case err != nil:
				log.Print(err) // it goes on if the server is only away
			case leader.Term == 0:
				fmt.Println("nobody leads")
			default:
				fmt.Println("the leader is", leader.Name)
			}
			observing <- true
		}
	}()
	<-observing

	lease, err := election.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	<-observing
	// Lead as long as lease.Context() is not done, and send the term along with
	// whatever only a leader may do: lease.Token().
	_, err = election.TryCampaign(ctx, "10.0.0.8:8080")
	fmt.Println("another one is refused:", errors.Is(err, holdfast.ErrNotAcquired))

	lease.Release(ctx) // resign
	<-observing
	stop()
	<-observing // the loop has ended
	// Output:
	// nobody leads
	// the leader is 10.0.0.7:8080
	// another one is refused: true
	// nobody leads
}

// Lead is for work that must run somewhere, but never twice at a time.
func ExampleElection_Lead() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	election := client.Election("example:cleaner")

	err := election.Lead(ctx, "host-7", func(ctx context.Context) error {
		leader, err := election.Leader(ctx)
		if err != nil {
			return err
		}
		fmt.Println(leader.Name, "leads")
		fmt.Println("its term is its token:", leader.Term == holdfast.LeaseOf(ctx).Token())
		// Work until ctx is done, which is when the lead is lost; then this
		// function is run again once this process leads again.
		return errors.New("out of work")
	})
	fmt.Println(err)

	leader, err := election.Leader(ctx)
	fmt.Println("nobody leads:", leader == holdfast.Leader{}, err)
	// Output:
	// host-7 leads
	// its term is its token: true
	// out of work
	// nobody leads: true <nil>
}
