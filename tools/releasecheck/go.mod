module github.com/holdfast-go/holdfast/tools/releasecheck

go 1.25.0

require (
	golang.org/x/exp v0.0.0-20260218203240-3dfff04db8fa
	golang.org/x/mod v0.38.0
	golang.org/x/tools v0.47.0
)

require golang.org/x/sync v0.21.0 // indirect
