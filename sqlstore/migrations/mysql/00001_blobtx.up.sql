-- +goose Up
-- What exists, what is promised, what must go. Times and deadlines are
-- microseconds since 1970 UTC. Text is kept as bytes: VARBINARY compares byte for
-- byte and pads nothing, and no character set of a connection changes it.
-- DDL commits by itself here, so each statement can be run again.

CREATE TABLE IF NOT EXISTS blobtx_objects (
    object_key   VARBINARY(700)  NOT NULL PRIMARY KEY,
    version      BIGINT          NOT NULL,
    blob_name    VARBINARY(3000) NOT NULL,
    intent_id    VARBINARY(255)  NOT NULL,
    etag         MEDIUMBLOB      NOT NULL,
    size         BIGINT          NOT NULL,
    sha256       VARBINARY(64)   NOT NULL,
    content_type VARBINARY(255)  NOT NULL,
    metadata     MEDIUMBLOB      NOT NULL,
    created_at   BIGINT          NOT NULL,
    updated_at   BIGINT          NOT NULL,
    UNIQUE KEY blob_name (blob_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS blobtx_intents (
    id                VARBINARY(255)  NOT NULL PRIMARY KEY,
    idempotency_key   VARBINARY(255),
    object_key        VARBINARY(700)  NOT NULL,
    expect            VARBINARY(400)  NOT NULL,
    blob_name         VARBINARY(3000) NOT NULL,
    direct            BIGINT          NOT NULL,
    metadata          MEDIUMBLOB      NOT NULL,
    state             VARBINARY(16)   NOT NULL,
    version           BIGINT          NOT NULL,
    holder            VARBINARY(255)  NOT NULL,
    due_at            BIGINT,
    expires_at        BIGINT          NOT NULL,
    beats             BIGINT          NOT NULL DEFAULT 0,
    attempts          BIGINT          NOT NULL DEFAULT 0,
    last_error        VARBINARY(1000) NOT NULL DEFAULT '',
    watched           BIGINT          NOT NULL DEFAULT 0,
    result            MEDIUMBLOB,
    object_version    BIGINT,
    object_created_at BIGINT,
    object_updated_at BIGINT,
    created_at        BIGINT          NOT NULL,
    updated_at        BIGINT          NOT NULL,
    UNIQUE KEY idempotency_key (idempotency_key),
    UNIQUE KEY blob_name (blob_name),
    KEY due (due_at, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS blobtx_retired (
    blob_name  VARBINARY(3000) NOT NULL PRIMARY KEY,
    intent_id  VARBINARY(255)  NOT NULL,
    due_at     BIGINT,
    attempts   BIGINT          NOT NULL DEFAULT 0,
    last_error VARBINARY(1000) NOT NULL DEFAULT '',
    watched    BIGINT          NOT NULL DEFAULT 0,
    KEY due (due_at, blob_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS blobtx_meta (
    name  VARBINARY(100)  NOT NULL PRIMARY KEY,
    value VARBINARY(1000) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
INSERT IGNORE INTO blobtx_meta (name, value) VALUES ('schema_version', '1');
