// Package matrix is the fault matrix of Holdfast: what it promises, in each
// kind of deployment, while things go wrong. Its tests are named by the rows of
// the matrix in docs/guarantees.md; they run on real servers, which are killed,
// paused, cut off and failed over.
package matrix
