//go:build unix

package launch

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/go-sql-driver/mysql" // the readiness probe speaks to the server through it
)

// MariaDBOptions changes how StartMariaDB runs the server.
type MariaDBOptions struct {
	// Settings are options of mariadbd such as "--max-connections=9". Durability
	// is on by default: it is what the tests are about.
	Settings []string
}

// StartMariaDB makes a new data folder in dir and serves it, on a port of
// 127.0.0.1 and on a socket in dir. The server's URL is a DSN of go-sql-driver's
// with a user who may do anything and no database.
//
// The default collation takes letters and accents for one another and the
// server's time zone is nobody's, on purpose: SQL that needs byte order or
// universal time and does not say so fails here.
func StartMariaDB(ctx context.Context, dir string, o *MariaDBOptions) (*Server, error) {
	if o == nil {
		o = &MariaDBOptions{}
	}
	server, install, err := mariadbPrograms()
	if err != nil {
		return nil, fmt.Errorf("start mariadb: %w", err)
	}
	data := filepath.Join(dir, "data")
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net = "blobtx", secret(), "tcp"
	initFile, err := prepareMariaDB(dir, data, config)
	if err != nil {
		return nil, fmt.Errorf("start mariadb: %w", err)
	}
	account := "--user=" + mariadbAccount()
	installation := exec.Command(install, "--no-defaults", account, "--datadir="+data, "--skip-test-db", "--skip-name-resolve", "--tmpdir="+dir)
	if err := runQuietly(ctx, installation, filepath.Join(dir, "install.log")); err != nil {
		return nil, fmt.Errorf("start mariadb: %w", err)
	}

	started, err := start(ctx, "mariadb", func(port int) attempt {
		config.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		dsn := config.FormatDSN()
		args := append([]string{
			"--no-defaults", account, "--datadir=" + data, "--tmpdir=" + dir, "--init-file=" + initFile,
			"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port), "--skip-name-resolve",
			"--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid"),
			"--max-connections=300",
			"--character-set-server=utf8mb4", "--collation-server=utf8mb4_unicode_ci", "--default-time-zone=+05:45",
		}, o.Settings...)
		cmd := exec.Command(server, args...)
		cmd.Dir = dir
		return attempt{
			cmd:        cmd,
			logPath:    filepath.Join(dir, "mariadb.log"),
			stopSignal: syscall.SIGKILL, // the data is thrown away, or recovered by the next start
			probe:      func(ctx context.Context) error { return pingMariaDB(ctx, dsn) },
		}
	})
	if err != nil {
		return nil, err
	}
	started.URL = config.FormatDSN()
	return started, nil
}

func pingMariaDB(ctx context.Context, dsn string) error {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	config.Logger = &mysql.NopLogger{} // of a server that does not answer yet
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close() // the ping's error is the one that counts
	return db.PingContext(ctx)
}

// prepareMariaDB makes the folders, and the file that makes our user at every
// start. Root keeps the socket to itself.
func prepareMariaDB(dir, data string, config *mysql.Config) (initFile string, err error) {
	initFile = filepath.Join(dir, "init.sql")
	text := fmt.Sprintf("CREATE OR REPLACE USER '%[1]s'@'127.0.0.1' IDENTIFIED BY '%[2]s';\nGRANT ALL ON *.* TO '%[1]s'@'127.0.0.1' WITH GRANT OPTION;\n", config.User, config.Passwd)
	if err := os.WriteFile(initFile, []byte(text), 0o600); err != nil {
		return "", err
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return "", err
	}
	account, err := user.Lookup(mariadbAccount())
	if err != nil || os.Geteuid() != 0 {
		return initFile, err
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return "", err
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		return "", err
	}
	for _, path := range []string{dir, data, initFile} {
		if err := os.Chown(path, uid, gid); err != nil {
			return "", err
		}
	}
	return initFile, nil
}

// mariadbAccount is who runs the server: ourselves, or the account that some of
// Debian's packages make, if we are root and it is there.
func mariadbAccount() string {
	me, err := user.Current()
	if err != nil {
		return "root"
	}
	if _, err := user.Lookup("mysql"); err == nil && me.Uid == "0" {
		return "mysql"
	}
	return me.Username
}

// mariadbPrograms finds the server, which Debian keeps where PATH may not look.
func mariadbPrograms() (server, install string, err error) {
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd"} {
		if server, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		return "", "", ErrNotInstalled
	}
	if install, err = exec.LookPath("mariadb-install-db"); err != nil {
		return "", "", ErrNotInstalled
	}
	return server, install, nil
}
