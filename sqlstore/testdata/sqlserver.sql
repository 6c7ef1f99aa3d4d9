-- savepoint
SAVE TRANSACTION blobtx_commit
;
-- back to savepoint
ROLLBACK TRANSACTION blobtx_commit
;
-- look
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT t.object_key, t.expect, t.blob_name, t.metadata, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT), coalesce(o.version, 0), coalesce(o.created_at, 0), coalesce(o.blob_name, 0x), coalesce(o.intent_id, 0x) FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, FORCESEEK) LEFT JOIN "blobtx_objects" o WITH (ROWLOCK, UPDLOCK, FORCESEEK) ON o.object_key = t.object_key WHERE t.id = @p1 AND t.version = @p2 AND t.state = 'uploading' AND t.expires_at > CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT)
;
-- look, caller's transaction
SELECT t.object_key, t.expect, t.blob_name, t.metadata, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT), coalesce(o.version, 0), coalesce(o.created_at, 0), coalesce(o.blob_name, 0x), coalesce(o.intent_id, 0x) FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, FORCESEEK) LEFT JOIN "blobtx_objects" o WITH (ROWLOCK, UPDLOCK, FORCESEEK) ON o.object_key = t.object_key WHERE t.id = @p1 AND t.version = @p2 AND t.state = 'uploading' AND t.expires_at > CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT)
;
-- create
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET XACT_ABORT OFF; BEGIN TRY INSERT INTO "blobtx_objects" (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at) SELECT @p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, @p10 WHERE NOT EXISTS (SELECT 1 FROM "blobtx_objects" o WITH (READCOMMITTEDLOCK, FORCESEEK) WHERE o.object_key = @p1); SELECT @@ROWCOUNT; END TRY BEGIN CATCH IF ERROR_NUMBER() NOT IN (2601, 2627) THROW; END CATCH
;
-- create, caller's transaction
SET XACT_ABORT OFF; BEGIN TRY INSERT INTO "blobtx_objects" (object_key, version, blob_name, intent_id, etag, size, sha256, content_type, metadata, created_at, updated_at) SELECT @p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, @p10 WHERE NOT EXISTS (SELECT 1 FROM "blobtx_objects" o WITH (READCOMMITTEDLOCK, FORCESEEK) WHERE o.object_key = @p1); SELECT @@ROWCOUNT; END TRY BEGIN CATCH IF ERROR_NUMBER() NOT IN (2601, 2627) THROW; END CATCH
;
-- replace
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE o SET version = @p2, blob_name = @p3, intent_id = @p4, etag = @p5, size = @p6, sha256 = @p7, content_type = @p8, metadata = @p9, updated_at = @p10 OUTPUT inserted.version FROM "blobtx_objects" o WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE o.object_key = @p1
;
-- replace, caller's transaction
UPDATE o SET version = @p2, blob_name = @p3, intent_id = @p4, etag = @p5, size = @p6, sha256 = @p7, content_type = @p8, metadata = @p9, updated_at = @p10 OUTPUT inserted.version FROM "blobtx_objects" o WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE o.object_key = @p1
;
-- committed
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE t SET state = 'sealing', version = t.version + 1, attempts = 0, due_at = @p2, updated_at = @p3, result = @p4, object_version = @p5, object_created_at = @p6, object_updated_at = @p3 FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE t.id = @p1
;
-- committed, caller's transaction
UPDATE t SET state = 'sealing', version = t.version + 1, attempts = 0, due_at = @p2, updated_at = @p3, result = @p4, object_version = @p5, object_created_at = @p6, object_updated_at = @p3 FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE t.id = @p1
;
-- delete
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; DELETE o OUTPUT deleted.object_key, deleted.version, deleted.blob_name, deleted.intent_id, deleted.etag, deleted.size, deleted.sha256, deleted.content_type, deleted.metadata, deleted.created_at, deleted.updated_at FROM "blobtx_objects" o WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE o.object_key = @p1 AND (@p2 IN ('exists', 'always') OR CHARINDEX(',' + CAST(o.version AS VARCHAR(20)) + ',', ',' + @p2 + ',') > 0)
;
-- delete, caller's transaction
DELETE o OUTPUT deleted.object_key, deleted.version, deleted.blob_name, deleted.intent_id, deleted.etag, deleted.size, deleted.sha256, deleted.content_type, deleted.metadata, deleted.created_at, deleted.updated_at FROM "blobtx_objects" o WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE o.object_key = @p1 AND (@p2 IN ('exists', 'always') OR CHARINDEX(',' + CAST(o.version AS VARCHAR(20)) + ',', ',' + @p2 + ',') > 0)
;
-- retire
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; INSERT INTO "blobtx_retired" (blob_name, intent_id, due_at) VALUES (@p1, @p2, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p3)
;
-- retire, caller's transaction
INSERT INTO "blobtx_retired" (blob_name, intent_id, due_at) VALUES (@p1, @p2, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p3)
;
-- metadata
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE o SET version = CASE WHEN o.version >= (CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) / 1000 * 2097152 + @p4) THEN o.version + 1 ELSE (CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) / 1000 * 2097152 + @p4) END, metadata = @p3, updated_at = CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) OUTPUT inserted.object_key, inserted.version, inserted.blob_name, inserted.intent_id, inserted.etag, inserted.size, inserted.sha256, inserted.content_type, inserted.metadata, inserted.created_at, inserted.updated_at FROM "blobtx_objects" o WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE o.object_key = @p1 AND (@p2 IN ('exists', 'always') OR CHARINDEX(',' + CAST(o.version AS VARCHAR(20)) + ',', ',' + @p2 + ',') > 0)
;
-- metadata, caller's transaction
UPDATE o SET version = CASE WHEN o.version >= (CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) / 1000 * 2097152 + @p4) THEN o.version + 1 ELSE (CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) / 1000 * 2097152 + @p4) END, metadata = @p3, updated_at = CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) OUTPUT inserted.object_key, inserted.version, inserted.blob_name, inserted.intent_id, inserted.etag, inserted.size, inserted.sha256, inserted.content_type, inserted.metadata, inserted.created_at, inserted.updated_at FROM "blobtx_objects" o WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE o.object_key = @p1 AND (@p2 IN ('exists', 'always') OR CHARINDEX(',' + CAST(o.version AS VARCHAR(20)) + ',', ',' + @p2 + ',') > 0)
;
-- lockIntent
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT t.id, coalesce(t.idempotency_key, 0x), t.object_key, t.expect, t.blob_name, t.direct, t.metadata, t.state, t.version, t.holder, coalesce(t.due_at, 0), t.expires_at, t.created_at, t.updated_at, t.beats, t.attempts, t.last_error, t.watched, coalesce(t.result, ''), coalesce(t.object_version, 0), coalesce(t.object_created_at, 0), coalesce(t.object_updated_at, 0), CASE WHEN t.expires_at <= CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) THEN 1 ELSE 0 END FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE t.id = @p1
;
-- lockIntent, caller's transaction
SELECT t.id, coalesce(t.idempotency_key, 0x), t.object_key, t.expect, t.blob_name, t.direct, t.metadata, t.state, t.version, t.holder, coalesce(t.due_at, 0), t.expires_at, t.created_at, t.updated_at, t.beats, t.attempts, t.last_error, t.watched, coalesce(t.result, ''), coalesce(t.object_version, 0), coalesce(t.object_created_at, 0), coalesce(t.object_updated_at, 0), CASE WHEN t.expires_at <= CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) THEN 1 ELSE 0 END FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE t.id = @p1
;
-- lockObject
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT o.object_key, o.version, o.blob_name, o.intent_id, o.etag, o.size, o.sha256, o.content_type, o.metadata, o.created_at, o.updated_at FROM "blobtx_objects" o WITH (READCOMMITTEDLOCK, FORCESEEK) WHERE o.object_key = @p1
;
-- lockObject, caller's transaction
SELECT o.object_key, o.version, o.blob_name, o.intent_id, o.etag, o.size, o.sha256, o.content_type, o.metadata, o.created_at, o.updated_at FROM "blobtx_objects" o WITH (READCOMMITTEDLOCK, FORCESEEK) WHERE o.object_key = @p1
;
-- getObject
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT o.object_key, o.version, o.blob_name, o.intent_id, o.etag, o.size, o.sha256, o.content_type, o.metadata, o.created_at, o.updated_at FROM "blobtx_objects" o WHERE o.object_key = @p1
;
-- list
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT TOP (@p3) o.object_key, o.version, o.blob_name, o.intent_id, o.etag, o.size, o.sha256, o.content_type, o.metadata, o.created_at, o.updated_at FROM "blobtx_objects" o WITH (FORCESEEK) WHERE o.object_key >= @p1 AND o.object_key > @p2 ORDER BY o.object_key
;
-- listBelow
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT TOP (@p3) o.object_key, o.version, o.blob_name, o.intent_id, o.etag, o.size, o.sha256, o.content_type, o.metadata, o.created_at, o.updated_at FROM "blobtx_objects" o WITH (FORCESEEK) WHERE o.object_key >= @p1 AND o.object_key > @p2 AND o.object_key < @p4 ORDER BY o.object_key
;
-- insert
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; INSERT INTO "blobtx_intents" (id, object_key, expect, blob_name, direct, metadata, state, version, holder, due_at, expires_at, created_at, updated_at, idempotency_key) OUTPUT inserted.created_at SELECT @p1, @p2, @p3, @p4, @p5, @p6, 'uploading', 1, @p7, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p8, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p9, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT), CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT), NULL WHERE (@p3 = 'always' OR (@p3 = 'absent' AND NOT EXISTS (SELECT 1 FROM "blobtx_objects" o WHERE o.object_key = @p2)) OR EXISTS (SELECT 1 FROM "blobtx_objects" o WHERE o.object_key = @p2 AND (@p3 IN ('exists', 'always') OR CHARINDEX(',' + CAST(o.version AS VARCHAR(20)) + ',', ',' + @p3 + ',') > 0))) AND NOT EXISTS (SELECT 1 FROM "blobtx_objects" o WHERE o.blob_name = @p4) AND NOT EXISTS (SELECT 1 FROM "blobtx_retired" r WHERE r.blob_name = @p4) AND NOT EXISTS (SELECT 1 FROM "blobtx_intents" t WHERE t.id = @p1) AND NOT EXISTS (SELECT 1 FROM "blobtx_intents" t WHERE t.blob_name = @p4)
;
-- insertKeyed
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; INSERT INTO "blobtx_intents" (id, object_key, expect, blob_name, direct, metadata, state, version, holder, due_at, expires_at, created_at, updated_at, idempotency_key) OUTPUT inserted.created_at SELECT @p1, @p2, @p3, @p4, @p5, @p6, 'uploading', 1, @p7, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p8, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p9, CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT), CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT), @p10 WHERE (@p3 = 'always' OR (@p3 = 'absent' AND NOT EXISTS (SELECT 1 FROM "blobtx_objects" o WHERE o.object_key = @p2)) OR EXISTS (SELECT 1 FROM "blobtx_objects" o WHERE o.object_key = @p2 AND (@p3 IN ('exists', 'always') OR CHARINDEX(',' + CAST(o.version AS VARCHAR(20)) + ',', ',' + @p3 + ',') > 0))) AND NOT EXISTS (SELECT 1 FROM "blobtx_objects" o WHERE o.blob_name = @p4) AND NOT EXISTS (SELECT 1 FROM "blobtx_retired" r WHERE r.blob_name = @p4) AND NOT EXISTS (SELECT 1 FROM "blobtx_intents" t WHERE t.id = @p1) AND NOT EXISTS (SELECT 1 FROM "blobtx_intents" t WHERE t.blob_name = @p4) AND NOT EXISTS (SELECT 1 FROM "blobtx_intents" t WHERE t.idempotency_key = @p10 AND t.idempotency_key IS NOT NULL)
;
-- intentByID
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT t.id, coalesce(t.idempotency_key, 0x), t.object_key, t.expect, t.blob_name, t.direct, t.metadata, t.state, t.version, t.holder, coalesce(t.due_at, 0), t.expires_at, t.created_at, t.updated_at, t.beats, t.attempts, t.last_error, t.watched, coalesce(t.result, ''), coalesce(t.object_version, 0), coalesce(t.object_created_at, 0), coalesce(t.object_updated_at, 0) FROM "blobtx_intents" t WHERE t.id = @p1
;
-- intentByKey
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT t.id, coalesce(t.idempotency_key, 0x), t.object_key, t.expect, t.blob_name, t.direct, t.metadata, t.state, t.version, t.holder, coalesce(t.due_at, 0), t.expires_at, t.created_at, t.updated_at, t.beats, t.attempts, t.last_error, t.watched, coalesce(t.result, ''), coalesce(t.object_version, 0), coalesce(t.object_created_at, 0), coalesce(t.object_updated_at, 0) FROM "blobtx_intents" t WHERE t.idempotency_key = @p1 AND t.idempotency_key IS NOT NULL
;
-- blobName
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT (SELECT COUNT_BIG(*) FROM "blobtx_intents" t WHERE t.blob_name = @p1) + (SELECT COUNT_BIG(*) FROM "blobtx_objects" o WHERE o.blob_name = @p1) + (SELECT COUNT_BIG(*) FROM "blobtx_retired" r WHERE r.blob_name = @p1)
;
-- takeOver
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE t SET version = t.version + 1, holder = @p3, due_at = CASE WHEN CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p4 < t.expires_at THEN CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p4 ELSE t.expires_at END, updated_at = CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) OUTPUT inserted.id, coalesce(inserted.idempotency_key, 0x), inserted.object_key, inserted.expect, inserted.blob_name, inserted.direct, inserted.metadata, inserted.state, inserted.version, inserted.holder, coalesce(inserted.due_at, 0), inserted.expires_at, inserted.created_at, inserted.updated_at, inserted.beats, inserted.attempts, inserted.last_error, inserted.watched, coalesce(inserted.result, ''), coalesce(inserted.object_version, 0), coalesce(inserted.object_created_at, 0), coalesce(inserted.object_updated_at, 0) FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE t.id = @p1 AND t.state = 'uploading' AND (t.version = @p2 OR (@p3 <> 0x AND t.holder = @p3))
;
-- beat
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE t SET due_at = CASE WHEN CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p3 < t.expires_at THEN CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + @p3 ELSE t.expires_at END, beats = t.beats + 1 OUTPUT inserted.id, coalesce(inserted.idempotency_key, 0x), inserted.object_key, inserted.expect, inserted.blob_name, inserted.direct, inserted.metadata, inserted.state, inserted.version, inserted.holder, coalesce(inserted.due_at, 0), inserted.expires_at, inserted.created_at, inserted.updated_at, inserted.beats, inserted.attempts, inserted.last_error, inserted.watched, coalesce(inserted.result, ''), coalesce(inserted.object_version, 0), coalesce(inserted.object_created_at, 0), coalesce(inserted.object_updated_at, 0) FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK) WHERE t.id = @p1 AND t.state = 'uploading' AND t.version = @p2
;
-- abandon
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE t SET state = 'abandoned', version = t.version + 1, watched = 0, idempotency_key = NULL, due_at = CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT), updated_at = CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) OUTPUT inserted.id, coalesce(inserted.idempotency_key, 0x), inserted.object_key, inserted.expect, inserted.blob_name, inserted.direct, inserted.metadata, inserted.state, inserted.version, inserted.holder, coalesce(inserted.due_at, 0), inserted.expires_at, inserted.created_at, inserted.updated_at, inserted.beats, inserted.attempts, inserted.last_error, inserted.watched, coalesce(inserted.result, ''), coalesce(inserted.object_version, 0), coalesce(inserted.object_created_at, 0), coalesce(inserted.object_updated_at, 0) FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, FORCESEEK) WHERE t.id = @p1 AND t.state = 'uploading' AND (t.version = @p2 OR (@p3 <> 0x AND t.holder = @p3))
;
-- getIntents
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT t.id, coalesce(t.idempotency_key, 0x), t.object_key, t.expect, t.blob_name, t.direct, t.metadata, t.state, t.version, t.holder, coalesce(t.due_at, 0), t.expires_at, t.created_at, t.updated_at, t.beats, t.attempts, t.last_error, t.watched, coalesce(t.result, ''), coalesce(t.object_version, 0), coalesce(t.object_created_at, 0), coalesce(t.object_updated_at, 0) FROM OPENJSON(@p1) WITH (id VARCHAR(3400) '$') s JOIN "blobtx_intents" t WITH (FORCESEEK) ON t.id = CONVERT(VARBINARY(1700), s.id, 2)
;
-- clock
SELECT CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT)
;
-- claimIntents
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; WITH due AS (SELECT TOP (@p1) t.* FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK) WHERE t.state IN ('uploading', 'abandoned', 'sealing') AND t.due_at <= @p2 ORDER BY t.due_at, t.id) UPDATE due SET state = CASE state WHEN 'uploading' THEN 'abandoned' ELSE state END, version = CASE state WHEN 'uploading' THEN version + 1 ELSE version END, watched = CASE state WHEN 'uploading' THEN 0 ELSE watched END, idempotency_key = CASE state WHEN 'uploading' THEN NULL ELSE idempotency_key END, attempts = CASE state WHEN 'uploading' THEN 1 ELSE attempts + 1 END, updated_at = CASE state WHEN 'uploading' THEN @p3 ELSE updated_at END, due_at = @p4 OUTPUT inserted.id, coalesce(inserted.idempotency_key, 0x), inserted.object_key, inserted.expect, inserted.blob_name, inserted.direct, inserted.metadata, inserted.state, inserted.version, inserted.holder, coalesce(inserted.due_at, 0), inserted.expires_at, inserted.created_at, inserted.updated_at, inserted.beats, inserted.attempts, inserted.last_error, inserted.watched, coalesce(inserted.result, ''), coalesce(inserted.object_version, 0), coalesce(inserted.object_created_at, 0), coalesce(inserted.object_updated_at, 0), deleted.due_at
;
-- claimRetired
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; WITH due AS (SELECT TOP (@p1) r.* FROM "blobtx_retired" r WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK) WHERE r.due_at <= @p2 ORDER BY r.due_at, r.blob_name) UPDATE due SET due_at = @p3, attempts = attempts + 1 OUTPUT inserted.blob_name, inserted.intent_id, inserted.due_at, inserted.attempts, inserted.last_error, inserted.watched, deleted.due_at
;
-- intentsGone
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; DELETE t FROM OPENJSON(@p1) WITH (id VARCHAR(3400) '$.id', state NVARCHAR(16) '$.state', version BIGINT '$.version', due BIGINT '$.due', verdict NVARCHAR(16) '$.verdict', delay BIGINT '$.delay', note NVARCHAR(1000) '$.note') s JOIN "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK) ON t.id = CONVERT(VARBINARY(1700), s.id, 2) WHERE t.version = s.version AND t.state = s.state COLLATE Latin1_General_100_BIN2
;
-- intentsKept
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE t SET state = CASE s.verdict WHEN 'done' THEN 'done' WHEN 'held' THEN 'held' ELSE t.state END, version = CASE s.verdict WHEN 'retry' THEN t.version ELSE t.version + 1 END, watched = CASE s.verdict WHEN 'watch' THEN 1 ELSE t.watched END, attempts = CASE WHEN s.verdict IN ('done', 'watch') THEN 0 ELSE t.attempts END, due_at = CASE s.verdict WHEN 'held' THEN NULL ELSE CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + s.delay END, last_error = s.note, updated_at = CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) FROM OPENJSON(@p1) WITH (id VARCHAR(3400) '$.id', state NVARCHAR(16) '$.state', version BIGINT '$.version', due BIGINT '$.due', verdict NVARCHAR(16) '$.verdict', delay BIGINT '$.delay', note NVARCHAR(1000) '$.note') s JOIN "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK) ON t.id = CONVERT(VARBINARY(1700), s.id, 2) WHERE t.version = s.version AND t.state = s.state COLLATE Latin1_General_100_BIN2
;
-- retiredGone
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; DELETE t FROM OPENJSON(@p1) WITH (id VARCHAR(3400) '$.id', state NVARCHAR(16) '$.state', version BIGINT '$.version', due BIGINT '$.due', verdict NVARCHAR(16) '$.verdict', delay BIGINT '$.delay', note NVARCHAR(1000) '$.note') s JOIN "blobtx_retired" t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK) ON t.blob_name = CONVERT(VARBINARY(1700), s.id, 2) WHERE t.due_at = s.due
;
-- retiredKept
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE t SET due_at = CASE s.verdict WHEN 'held' THEN NULL ELSE CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) + s.delay END, last_error = s.note, watched = CASE s.verdict WHEN 'watch' THEN 1 ELSE t.watched END, attempts = CASE s.verdict WHEN 'watch' THEN 0 ELSE t.attempts END FROM OPENJSON(@p1) WITH (id VARCHAR(3400) '$.id', state NVARCHAR(16) '$.state', version BIGINT '$.version', due BIGINT '$.due', verdict NVARCHAR(16) '$.verdict', delay BIGINT '$.delay', note NVARCHAR(1000) '$.note') s JOIN "blobtx_retired" t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK) ON t.blob_name = CONVERT(VARBINARY(1700), s.id, 2) WHERE t.due_at = s.due
;
-- forget
SET NOCOUNT OFF; SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; WITH due AS (SELECT TOP (@p1) t.* FROM "blobtx_intents" t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK) WHERE t.state = 'done' AND t.due_at <= CAST(DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME()) AS BIGINT) ORDER BY t.due_at, t.id) DELETE FROM due
;
-- schemaVersion
SELECT m.value, CAST(d.compatibility_level AS BIGINT), CAST(d.is_read_committed_snapshot_on AS BIGINT) FROM "blobtx_meta" m CROSS JOIN sys.databases d WHERE m.name = 'schema_version' AND d.name = DB_NAME()
;
-- settings
SELECT CAST(d.compatibility_level AS BIGINT), CAST(d.is_read_committed_snapshot_on AS BIGINT) FROM sys.databases d WHERE d.name = DB_NAME()
;
-- lock
DECLARE @got INT; EXEC @got = sp_getapplock @Resource = 'blobtx migrate', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = @p1; SELECT CAST(@got AS BIGINT)
;
-- schema
CREATE SCHEMA "app"
;
-- schemas
SELECT COUNT_BIG(*) FROM sys.schemas WHERE name = @p1
;
-- table
SELECT COUNT_BIG(*) FROM sys.tables WHERE object_id = OBJECT_ID(@p1)
;
-- 00001_blobtx.up.sql, 1
CREATE TABLE "app".my_objects (
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
)
;
-- 00001_blobtx.up.sql, 2
CREATE UNIQUE NONCLUSTERED INDEX blob_name ON "app".my_objects (blob_name)
;
-- 00001_blobtx.up.sql, 3
CREATE TABLE "app".my_intents (
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
)
;
-- 00001_blobtx.up.sql, 4
CREATE UNIQUE NONCLUSTERED INDEX idempotency_key ON "app".my_intents (idempotency_key) WHERE idempotency_key IS NOT NULL
;
-- 00001_blobtx.up.sql, 5
CREATE UNIQUE NONCLUSTERED INDEX blob_name ON "app".my_intents (blob_name)
;
-- 00001_blobtx.up.sql, 6
CREATE NONCLUSTERED INDEX due ON "app".my_intents (due_at, id)
;
-- 00001_blobtx.up.sql, 7
CREATE TABLE "app".my_retired (
    blob_name         VARBINARY(1690) NOT NULL PRIMARY KEY NONCLUSTERED,
    intent_id         VARBINARY(255)  NOT NULL,
    due_at            BIGINT          NULL,
    attempts          BIGINT          NOT NULL DEFAULT 0,
    last_error        NVARCHAR(1000)  NOT NULL DEFAULT '',
    watched           SMALLINT        NOT NULL DEFAULT 0
)
;
-- 00001_blobtx.up.sql, 8
CREATE CLUSTERED INDEX intent ON "app".my_retired (intent_id)
;
-- 00001_blobtx.up.sql, 9
CREATE UNIQUE NONCLUSTERED INDEX due ON "app".my_retired (due_at, blob_name)
;
-- 00001_blobtx.up.sql, 10
CREATE TABLE "app".my_meta (
    name              NVARCHAR(100)   COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    value             NVARCHAR(1000)  NOT NULL
)
;
-- 00001_blobtx.up.sql, 11
INSERT INTO "app".my_meta (name, value) VALUES ('schema_version', '1')
;
