-- +goose Up
-- What exists, what is promised, what must go. Times and deadlines are
-- microseconds since 1970 UTC. What is looked up is kept as bytes of UTF-8:
-- VARBINARY compares byte for byte and ignores no trailing space. A clustered
-- key holds 900 bytes, another 1,700 (SQL Server, "Maximum capacity
-- specifications"). Names of indexes belong to their table.

CREATE TABLE blobtx_objects (
    object_key        VARBINARY(700)  NOT NULL PRIMARY KEY CLUSTERED,
    version           BIGINT          NOT NULL,
    blob_name         VARBINARY(1690) NOT NULL,
    intent_id         VARBINARY(255)  NOT NULL,
    etag              NVARCHAR(MAX)   NOT NULL,
    size              BIGINT          NOT NULL,
    sha256            NVARCHAR(64)    NOT NULL,
    content_type      NVARCHAR(255)   NOT NULL,
    metadata          NVARCHAR(MAX)   NOT NULL,
    created_at        BIGINT          NOT NULL,
    updated_at        BIGINT          NOT NULL
);
CREATE UNIQUE NONCLUSTERED INDEX blob_name ON blobtx_objects (blob_name);

CREATE TABLE blobtx_intents (
    id                VARBINARY(255)  NOT NULL PRIMARY KEY CLUSTERED,
    idempotency_key   VARBINARY(255)  NULL,
    object_key        VARBINARY(700)  NOT NULL,
    expect            NVARCHAR(400)   COLLATE Latin1_General_100_BIN2 NOT NULL,
    blob_name         VARBINARY(1690) NOT NULL,
    direct            SMALLINT        NOT NULL,
    metadata          NVARCHAR(MAX)   NOT NULL,
    state             NVARCHAR(16)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    version           BIGINT          NOT NULL,
    holder            VARBINARY(255)  NOT NULL,
    due_at            BIGINT          NULL,
    expires_at        BIGINT          NOT NULL,
    beats             BIGINT          NOT NULL DEFAULT 0,
    attempts          BIGINT          NOT NULL DEFAULT 0,
    last_error        NVARCHAR(1000)  NOT NULL DEFAULT '',
    watched           SMALLINT        NOT NULL DEFAULT 0,
    result            NVARCHAR(MAX)   NULL,
    object_version    BIGINT          NULL,
    object_created_at BIGINT          NULL,
    object_updated_at BIGINT          NULL,
    created_at        BIGINT          NOT NULL,
    updated_at        BIGINT          NOT NULL
);
CREATE UNIQUE NONCLUSTERED INDEX idempotency_key ON blobtx_intents (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE NONCLUSTERED INDEX blob_name ON blobtx_intents (blob_name);
CREATE NONCLUSTERED INDEX due ON blobtx_intents (due_at, id);

CREATE TABLE blobtx_retired (
    blob_name         VARBINARY(1690) NOT NULL PRIMARY KEY NONCLUSTERED,
    intent_id         VARBINARY(255)  NOT NULL,
    due_at            BIGINT          NULL,
    attempts          BIGINT          NOT NULL DEFAULT 0,
    last_error        NVARCHAR(1000)  NOT NULL DEFAULT '',
    watched           SMALLINT        NOT NULL DEFAULT 0
);
CREATE CLUSTERED INDEX intent ON blobtx_retired (intent_id);
CREATE UNIQUE NONCLUSTERED INDEX due ON blobtx_retired (due_at, blob_name);

CREATE TABLE blobtx_meta (
    name              NVARCHAR(100)   COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    value             NVARCHAR(1000)  NOT NULL
);
INSERT INTO blobtx_meta (name, value) VALUES ('schema_version', '1');
