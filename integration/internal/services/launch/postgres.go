//go:build unix

package launch

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // the readiness probe speaks to the server through it
)

// PostgresOptions changes how StartPostgres runs the server.
type PostgresOptions struct {
	// Settings are lines of postgresql.conf such as "fsync=off". Durability is
	// on by default: it is what the tests are about.
	Settings []string
}

// StartPostgres makes a new cluster in dir and serves it. The server's URL names
// a superuser and the database postgres.
//
// The cluster's default collation is a language's (ICU en-US), on purpose: SQL
// that needs byte order and does not say so fails here.
func StartPostgres(ctx context.Context, dir string, o *PostgresOptions) (*Server, error) {
	if o == nil {
		o = &PostgresOptions{}
	}
	bin, err := postgresBin()
	if err != nil {
		return nil, fmt.Errorf("start postgresql: %w", err)
	}
	owner, err := postgresOwner()
	if err != nil {
		return nil, fmt.Errorf("start postgresql: %w", err)
	}
	data := filepath.Join(dir, "data")
	password, passwordFile := secret(), filepath.Join(dir, "password")
	if err := owner.prepare(dir, data, passwordFile, password); err != nil {
		return nil, fmt.Errorf("start postgresql: %w", err)
	}

	initdb := exec.Command(filepath.Join(bin, "initdb"),
		"--pgdata="+data, "--username=blobtx", "--pwfile="+passwordFile,
		"--auth=scram-sha-256", "--encoding=UTF8",
		"--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync")
	owner.adopt(initdb, dir)
	if err := runQuietly(ctx, initdb, filepath.Join(dir, "initdb.log")); err != nil {
		return nil, fmt.Errorf("start postgresql: %w", err)
	}

	var dsn string
	server, err := start(ctx, "postgresql", func(port int) attempt {
		dsn = (&url.URL{
			Scheme: "postgres", User: url.UserPassword("blobtx", password),
			Host: "127.0.0.1:" + strconv.Itoa(port), Path: "postgres", RawQuery: "sslmode=disable",
		}).String()
		settings := append([]string{
			"port=" + strconv.Itoa(port),
			"listen_addresses=127.0.0.1",
			"unix_socket_directories=",
			"max_connections=300",
			// Shared memory lives in the data folder: removing that removes all.
			"dynamic_shared_memory_type=mmap",
		}, o.Settings...)
		args := []string{"-D", data}
		for _, s := range settings {
			args = append(args, "-c", s)
		}
		cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
		owner.adopt(cmd, dir)
		return attempt{
			cmd:     cmd,
			logPath: filepath.Join(dir, "postgresql.log"),
			// An immediate shutdown: the data is thrown away, so nothing needs flushing.
			stopSignal: syscall.SIGQUIT,
			probe:      func(ctx context.Context) error { return ping(ctx, dsn) },
		}
	})
	if err != nil {
		return nil, err
	}
	server.URL = dsn
	return server, nil
}

func ping(ctx context.Context, dsn string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer db.Close() // the ping's error is the one that counts
	return db.PingContext(ctx)
}

// postgresBin finds the newest server: where Debian keeps it, which is not on
// PATH, else wherever PATH has initdb.
func postgresBin() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	best, bestVersion := "", -1
	for _, program := range found {
		bin := filepath.Dir(program)
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		if err == nil && version > bestVersion {
			best, bestVersion = bin, version
		}
	}
	if best != "" {
		return best, nil
	}
	program, err := exec.LookPath("initdb")
	if err != nil {
		return "", ErrNotInstalled
	}
	return filepath.Dir(program), nil
}

// owner is the account the server runs as. PostgreSQL refuses to run as root,
// so root hands it to the account that Debian's package made.
type owner struct{ credential *syscall.Credential }

func postgresOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return owner{}, fmt.Errorf("root cannot run it and there is no account named postgres: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return owner{}, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return owner{}, err
	}
	return owner{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func (w owner) prepare(dir, data, passwordFile, password string) error {
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(passwordFile, []byte(password), 0o600); err != nil {
		return err
	}
	if w.credential == nil {
		return nil
	}
	for _, path := range []string{dir, data, passwordFile} {
		if err := os.Chown(path, int(w.credential.Uid), int(w.credential.Gid)); err != nil {
			return err
		}
	}
	return nil
}

func (w owner) adopt(cmd *exec.Cmd, dir string) {
	cmd.Dir = dir // the current folder may be closed to that account
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.credential}
}

// runQuietly runs a preparing command and shows its output only when it fails.
func runQuietly(ctx context.Context, cmd *exec.Cmd, logPath string) error {
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close() // read back below, after the command ended
	cmd.Stdout, cmd.Stderr = log, log
	if err := Run(ctx, cmd, nil); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, tail(logPath))
	}
	return nil
}
