// Package judgetest has hosts of judges that answer as a test tells them. They
// are as strict about requests as the real ones.
package judgetest
