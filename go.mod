module github.com/holdfast-go/holdfast

go 1.25.0

require (
	github.com/redis/rueidis v1.0.79
	go.yaml.in/yaml/v3 v3.0.5
)

require golang.org/x/sys v0.47.0 // indirect
