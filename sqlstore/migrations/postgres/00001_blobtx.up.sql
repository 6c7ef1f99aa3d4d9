-- +goose Up
-- What exists, what is promised, what must go. Times and deadlines are
-- microseconds since 1970 UTC. Names compare byte for byte.

CREATE TABLE blobtx_objects (
    object_key        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version           BIGINT           NOT NULL,
    blob_name         TEXT COLLATE "C" NOT NULL,
    intent_id         TEXT COLLATE "C" NOT NULL,
    etag              TEXT             NOT NULL,
    size              BIGINT           NOT NULL,
    sha256            TEXT             NOT NULL,
    content_type      TEXT             NOT NULL,
    metadata          TEXT             NOT NULL,
    created_at        BIGINT           NOT NULL,
    updated_at        BIGINT           NOT NULL
);
CREATE UNIQUE INDEX blobtx_objects_blob ON blobtx_objects (blob_name);

CREATE TABLE blobtx_intents (
    id                TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    idempotency_key   TEXT COLLATE "C",
    object_key        TEXT COLLATE "C" NOT NULL,
    expect            TEXT             NOT NULL,
    blob_name         TEXT COLLATE "C" NOT NULL,
    direct            SMALLINT         NOT NULL,
    metadata          TEXT             NOT NULL,
    state             TEXT             NOT NULL,
    version           BIGINT           NOT NULL,
    holder            TEXT             NOT NULL,
    due_at            BIGINT,
    expires_at        BIGINT           NOT NULL,
    beats             BIGINT           NOT NULL DEFAULT 0,
    attempts          BIGINT           NOT NULL DEFAULT 0,
    last_error        TEXT             NOT NULL DEFAULT '',
    watched           SMALLINT         NOT NULL DEFAULT 0,
    result            TEXT,
    object_version    BIGINT,
    object_created_at BIGINT,
    object_updated_at BIGINT,
    created_at        BIGINT           NOT NULL,
    updated_at        BIGINT           NOT NULL
);
CREATE UNIQUE INDEX blobtx_intents_idempotency ON blobtx_intents (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX blobtx_intents_blob ON blobtx_intents (blob_name);
CREATE INDEX blobtx_intents_due ON blobtx_intents (due_at, id);

CREATE TABLE blobtx_retired (
    blob_name         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    intent_id         TEXT COLLATE "C" NOT NULL,
    due_at            BIGINT,
    attempts          BIGINT           NOT NULL DEFAULT 0,
    last_error        TEXT             NOT NULL DEFAULT '',
    watched           SMALLINT         NOT NULL DEFAULT 0
);
CREATE INDEX blobtx_retired_due ON blobtx_retired (due_at, blob_name);

CREATE TABLE blobtx_meta (
    name              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value             TEXT             NOT NULL
);
INSERT INTO blobtx_meta (name, value) VALUES ('schema_version', '1');
