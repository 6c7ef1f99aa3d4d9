package blobtx_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/blobtx/blobtx"

// list runs go list in the root module alone, as users get it.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	require.NoError(t, err, "go list %v", args)
	return strings.Fields(string(out))
}

// What links what: the protocol, its contracts and the SQL adapter bring no
// third party and no test code into a service.
func TestWhatLinksWhat(t *testing.T) {
	third := func(path string) bool {
		first, _, _ := strings.Cut(path, "/")
		return strings.Contains(first, ".") && !strings.HasPrefix(path, module)
	}
	for pkg, ours := range map[string][]string{
		module:                     {module + "/store", module + "/internal/seam"},
		module + "/store":          {},
		module + "/store/memstore": {module + "/store"},
		module + "/sqlstore":       {module + "/store"},
		module + "/azstore":        {module + "/store"},
	} {
		t.Run(strings.TrimPrefix(pkg, module+"/"), func(t *testing.T) {
			for _, dep := range list(t, "-deps", pkg) {
				switch {
				case dep == pkg:
				case strings.HasPrefix(dep, module):
					require.Contains(t, ours, dep)
				case pkg != module+"/azstore":
					require.False(t, third(dep), "links %s", dep)
					require.NotEqual(t, "testing", dep)
				default:
					require.NotEqual(t, "testing", dep)
					require.NotEqual(t, "database/sql", dep)
				}
			}
		})
	}
}

func TestTheRootRequiresThreeModules(t *testing.T) {
	direct := list(t, "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	require.ElementsMatch(t, []string{
		"github.com/Azure/azure-sdk-for-go/sdk/azcore",
		"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob",
		"github.com/stretchr/testify",
	}, direct)
}
