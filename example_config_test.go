package holdfast_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Redisson can read the same file. It ignores the section holdfast.
func ExampleOpenConfig() {
	ctx := context.Background()
	url := os.Getenv("REDIS_URL")
	if url == "" {
		url = redistest.One(redistest.Example).URL()
	}
	os.Setenv("SHOP_REDIS", url)

	file := filepath.Join(os.TempDir(), fmt.Sprintf("redisson-%d.yaml", os.Getpid()))
	defer os.Remove(file)
	err := os.WriteFile(file, []byte(`
singleServerConfig:
  address: ${SHOP_REDIS:-redis://localhost:6379}
  clientName: shop
  timeout: 3000
lockWatchdogTimeout: 20000
holdfast:
  retryTimeout: 15s
`), 0o600)
	if err != nil {
		log.Fatal(err)
	}

	client, err := holdfast.OpenConfig(ctx, file, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("example:config").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	fmt.Println(lease.Name())
	// Output: example:config
}
