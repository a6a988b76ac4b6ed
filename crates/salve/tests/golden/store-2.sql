-- A store of schema 2, as the release before key lines wrote it; see `tests/it/tables.rs`.
BEGIN TRANSACTION;
CREATE TABLE entry (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL, -- microseconds since 1970, UTC
    by       TEXT NOT NULL,    -- JSON
    incident TEXT,
    kind     TEXT NOT NULL,
    version  INTEGER NOT NULL,
    data     TEXT NOT NULL     -- JSON
) STRICT;
INSERT INTO "entry" VALUES(1,1794970888176272,'{"person":{"name":"ada"}}',NULL,'noted',1,'{"text":"taught for b329a3c16604e510: printf 5 > sum.txt"}');
INSERT INTO "entry" VALUES(2,1794970888298541,'{"person":{"name":"ada"}}',NULL,'learned',1,'{"proof":"failed","remedy":"64c01f59e7e6d86e9f8434b95d0d42d9161c69d80cbc6bda76b5011c3142ff57","signature":"b329a3c16604e510"}');
INSERT INTO "entry" VALUES(3,1794970888582354,'{"salve":{"pid":1668,"started":763992,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','opened',1,'{"policy":{"at_a_loss":"ask","backoff_ms":0,"catastrophe_after":3,"cooldown_ms":0,"engage_ms":30000,"limits":{"attempts":5,"money_micros":5000000,"tokens":50000},"max_files":8,"max_lines":300,"no_progress_limit":1,"on_failure":"undo","person":"ada","quiet_ms":0,"watch_ms":0,"write_ms":120000},"subject":{"kind":"check","name":"sh check.sh","repeat":"safe"},"symptom":{"acted":"no","class":"runtime_error","exit":{"code":1},"key_line":"error: stock service eu-1 does not answer","signature":"b329a3c16604e510"}}');
INSERT INTO "entry" VALUES(4,1794970888582359,'{"salve":{"pid":1668,"started":763992,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','claimed',1,'{}');
INSERT INTO "entry" VALUES(5,1794970888725437,'{"salve":{"pid":1668,"started":763992,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','judged',1,'{"judgement":{"reason":"the command matches a pattern that needs a person","rule":"require_human[0]","verdict":"ask"},"remedy":{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","kind":"command","origin":"project","repeat":"unsafe","text":"printf 5 > sum.txt","undo":"snapshot"}}');
INSERT INTO "entry" VALUES(6,1794970888725472,'{"salve":{"pid":1668,"started":763992,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','requested',1,'{"effect":1,"what":"ask"}');
INSERT INTO "entry" VALUES(7,1794970888726297,'{"salve":{"pid":1668,"started":763992,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','finished',2,'{"effect":1,"report":"done"}');
INSERT INTO "entry" VALUES(8,1794970888771957,'{"salve":{"pid":1668,"started":763992,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','released',1,'{}');
INSERT INTO "entry" VALUES(9,1794970888879019,'{"person":{"name":"ada"}}','5da91f17-16de-473e-b5e6-9990d717d54f','approved',1,'{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","question":1}');
INSERT INTO "entry" VALUES(10,1794970889114757,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','claimed',1,'{}');
INSERT INTO "entry" VALUES(11,1794970889149318,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','requested',1,'{"effect":2,"what":"snapshot"}');
INSERT INTO "entry" VALUES(12,1794970889279249,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','finished',2,'{"effect":2,"report":"done"}');
INSERT INTO "entry" VALUES(13,1794970889279297,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','requested',1,'{"effect":3,"what":{"apply":{"on":{"approval":9},"remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee"}}}');
INSERT INTO "entry" VALUES(14,1794970889468785,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','files_changed',1,'{"effect":3,"files":[{"lines":2,"path":"sum.txt"}],"more":0}');
INSERT INTO "entry" VALUES(15,1794970889470157,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','finished',2,'{"effect":3,"report":"done"}');
INSERT INTO "entry" VALUES(16,1794970889470182,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','requested',1,'{"effect":4,"what":"verify"}');
INSERT INTO "entry" VALUES(17,1794970889853338,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','noted',1,'{"text":"proof: the state before the repair still fails the same way"}');
INSERT INTO "entry" VALUES(18,1794970889854542,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','finished',2,'{"effect":4,"report":{"verified":{"proof":"proven"}}}');
INSERT INTO "entry" VALUES(19,1794970889854567,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','ended',1,'{"outcome":{"recovered":"proven"}}');
INSERT INTO "entry" VALUES(20,1794970889883983,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','requested',1,'{"effect":5,"what":"record"}');
INSERT INTO "entry" VALUES(21,1794970889923883,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}',NULL,'learned',1,'{"proof":"proven","remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","signature":"b329a3c16604e510"}');
INSERT INTO "entry" VALUES(22,1794970889939921,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','finished',2,'{"effect":5,"report":"done"}');
INSERT INTO "entry" VALUES(23,1794970889939976,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','requested',1,'{"effect":6,"what":"release"}');
INSERT INTO "entry" VALUES(24,1794970889940782,'{"salve":{"pid":1878,"started":764042,"host":"laptop"}}','5da91f17-16de-473e-b5e6-9990d717d54f','finished',2,'{"effect":6,"report":"done"}');
INSERT INTO "entry" VALUES(25,1794970890159512,'{"salve":{"pid":2317,"started":764146,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','opened',1,'{"policy":{"at_a_loss":"ask","backoff_ms":0,"catastrophe_after":3,"cooldown_ms":0,"engage_ms":30000,"limits":{"attempts":5,"money_micros":5000000,"tokens":50000},"max_files":8,"max_lines":300,"no_progress_limit":1,"on_failure":"undo","person":"ada","quiet_ms":0,"watch_ms":0,"write_ms":120000},"subject":{"kind":"check","name":"sh check.sh","repeat":"safe"},"symptom":{"acted":"no","class":"runtime_error","exit":{"code":1},"key_line":"error: stock service eu-1 does not answer","signature":"b329a3c16604e510"}}');
INSERT INTO "entry" VALUES(26,1794970890159517,'{"salve":{"pid":2317,"started":764146,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','claimed',1,'{}');
INSERT INTO "entry" VALUES(27,1794970890240962,'{"salve":{"pid":2317,"started":764146,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','judged',1,'{"judgement":{"reason":"the command matches a pattern that needs a person","rule":"require_human[0]","verdict":"ask"},"remedy":{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","kind":"command","origin":"project","repeat":"unsafe","text":"printf 5 > sum.txt","undo":"snapshot"}}');
INSERT INTO "entry" VALUES(28,1794970890240999,'{"salve":{"pid":2317,"started":764146,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','requested',1,'{"effect":1,"what":"ask"}');
INSERT INTO "entry" VALUES(29,1794970890241846,'{"salve":{"pid":2317,"started":764146,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','finished',2,'{"effect":1,"report":"done"}');
INSERT INTO "entry" VALUES(30,1794970890249552,'{"salve":{"pid":2317,"started":764146,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','released',1,'{}');
INSERT INTO "entry" VALUES(31,1794970890311862,'{"person":{"name":"ada"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','approved',1,'{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","question":1}');
INSERT INTO "entry" VALUES(32,1794970890405292,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','claimed',1,'{}');
INSERT INTO "entry" VALUES(33,1794970890419755,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','requested',1,'{"effect":2,"what":"snapshot"}');
INSERT INTO "entry" VALUES(34,1794970890519429,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','finished',2,'{"effect":2,"report":"done"}');
INSERT INTO "entry" VALUES(35,1794970890519483,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','requested',1,'{"effect":3,"what":{"apply":{"on":{"approval":31},"remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee"}}}');
INSERT INTO "entry" VALUES(36,1794970890748640,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','files_changed',1,'{"effect":3,"files":[{"lines":2,"path":"sum.txt"}],"more":0}');
INSERT INTO "entry" VALUES(37,1794970890751259,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','finished',2,'{"effect":3,"report":"done"}');
INSERT INTO "entry" VALUES(38,1794970890751283,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','requested',1,'{"effect":4,"what":"verify"}');
INSERT INTO "entry" VALUES(39,1794970891038355,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','noted',1,'{"text":"proof: the state before the repair still fails the same way"}');
INSERT INTO "entry" VALUES(40,1794970891048647,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','finished',2,'{"effect":4,"report":{"verified":{"proof":"proven"}}}');
INSERT INTO "entry" VALUES(41,1794970891048704,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','ended',1,'{"outcome":{"recovered":"proven"}}');
INSERT INTO "entry" VALUES(42,1794970891123832,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','requested',1,'{"effect":5,"what":"record"}');
INSERT INTO "entry" VALUES(43,1794970891161334,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}',NULL,'learned',1,'{"proof":"proven","remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","signature":"b329a3c16604e510"}');
INSERT INTO "entry" VALUES(44,1794970891176709,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','finished',2,'{"effect":5,"report":"done"}');
INSERT INTO "entry" VALUES(45,1794970891176793,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','requested',1,'{"effect":6,"what":"release"}');
INSERT INTO "entry" VALUES(46,1794970891177841,'{"salve":{"pid":2456,"started":764180,"host":"laptop"}}','7d994c9f-abcf-4278-9f45-38eb78aff9b8','finished',2,'{"effect":6,"report":"done"}');
INSERT INTO "entry" VALUES(47,1794970891424990,'{"salve":{"pid":2870,"started":764278,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','opened',1,'{"policy":{"at_a_loss":"ask","backoff_ms":0,"catastrophe_after":3,"cooldown_ms":0,"engage_ms":30000,"limits":{"attempts":5,"money_micros":5000000,"tokens":50000},"max_files":8,"max_lines":300,"no_progress_limit":1,"on_failure":"undo","person":"ada","quiet_ms":0,"watch_ms":0,"write_ms":120000},"subject":{"kind":"check","name":"sh check.sh","repeat":"safe"},"symptom":{"acted":"no","class":"runtime_error","exit":{"code":1},"key_line":"error: stock service eu-1 does not answer","signature":"b329a3c16604e510"}}');
INSERT INTO "entry" VALUES(48,1794970891424994,'{"salve":{"pid":2870,"started":764278,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','claimed',1,'{}');
INSERT INTO "entry" VALUES(49,1794970891589004,'{"salve":{"pid":2870,"started":764278,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','judged',1,'{"judgement":{"reason":"the command matches a pattern that needs a person","rule":"require_human[0]","verdict":"ask"},"remedy":{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","kind":"command","origin":"project","repeat":"unsafe","text":"printf 5 > sum.txt","undo":"snapshot"}}');
INSERT INTO "entry" VALUES(50,1794970891589039,'{"salve":{"pid":2870,"started":764278,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','requested',1,'{"effect":1,"what":"ask"}');
INSERT INTO "entry" VALUES(51,1794970891595309,'{"salve":{"pid":2870,"started":764278,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','finished',2,'{"effect":1,"report":"done"}');
INSERT INTO "entry" VALUES(52,1794970891629588,'{"salve":{"pid":2870,"started":764278,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','released',1,'{}');
INSERT INTO "entry" VALUES(53,1794970891766946,'{"person":{"name":"ada"}}','bbb59b04-77c3-4082-b99b-20611b81b907','approved',1,'{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","question":1}');
INSERT INTO "entry" VALUES(54,1794970891917267,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','claimed',1,'{}');
INSERT INTO "entry" VALUES(55,1794970891921425,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','requested',1,'{"effect":2,"what":"snapshot"}');
INSERT INTO "entry" VALUES(56,1794970892070750,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','finished',2,'{"effect":2,"report":"done"}');
INSERT INTO "entry" VALUES(57,1794970892070870,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','requested',1,'{"effect":3,"what":{"apply":{"on":{"approval":53},"remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee"}}}');
INSERT INTO "entry" VALUES(58,1794970892268143,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','files_changed',1,'{"effect":3,"files":[{"lines":2,"path":"sum.txt"}],"more":0}');
INSERT INTO "entry" VALUES(59,1794970892271248,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','finished',2,'{"effect":3,"report":"done"}');
INSERT INTO "entry" VALUES(60,1794970892271267,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','requested',1,'{"effect":4,"what":"verify"}');
INSERT INTO "entry" VALUES(61,1794970892510863,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','noted',1,'{"text":"proof: the state before the repair still fails the same way"}');
INSERT INTO "entry" VALUES(62,1794970892516906,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','finished',2,'{"effect":4,"report":{"verified":{"proof":"proven"}}}');
INSERT INTO "entry" VALUES(63,1794970892516942,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','ended',1,'{"outcome":{"recovered":"proven"}}');
INSERT INTO "entry" VALUES(64,1794970892579995,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','requested',1,'{"effect":5,"what":"record"}');
INSERT INTO "entry" VALUES(65,1794970892622075,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}',NULL,'learned',1,'{"proof":"proven","remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","signature":"b329a3c16604e510"}');
INSERT INTO "entry" VALUES(66,1794970892651957,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','finished',2,'{"effect":5,"report":"done"}');
INSERT INTO "entry" VALUES(67,1794970892652036,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','requested',1,'{"effect":6,"what":"release"}');
INSERT INTO "entry" VALUES(68,1794970892653231,'{"salve":{"pid":3029,"started":764328,"host":"laptop"}}','bbb59b04-77c3-4082-b99b-20611b81b907','finished',2,'{"effect":6,"report":"done"}');
INSERT INTO "entry" VALUES(69,1794970893639060,'{"person":{"name":"ada"}}',NULL,'rule_accepted',1,'{"remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","signature":"b329a3c16604e510"}');
CREATE TABLE failure (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    signature  INTEGER NOT NULL UNIQUE, -- the 64 bits, as a signed number
    class      TEXT NOT NULL,
    error_type TEXT NOT NULL,
    normalized TEXT NOT NULL,
    identity   TEXT,
    first_seen INTEGER NOT NULL,           -- microseconds since 1970, UTC
    last_seen  INTEGER NOT NULL,
    seen       INTEGER NOT NULL,
    remedies   INTEGER NOT NULL,           -- how many are known
    withdrawn  INTEGER NOT NULL DEFAULT 0  -- 1: a person took it out of the shared file
) STRICT;
INSERT INTO "failure" VALUES(1,-5536714215839701744,'runtime_error','runtime_error','stock service eu-<n> does not answer',NULL,1794970888176272,1794970888176272,0,2,0);
CREATE TABLE learned (
    file  TEXT NOT NULL,
    key   TEXT NOT NULL,
    place INTEGER NOT NULL,
    data  TEXT NOT NULL, -- JSON
    PRIMARY KEY (file, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE learned_file (
    file   TEXT PRIMARY KEY,
    digest TEXT NOT NULL, -- of the file's bytes
    items  TEXT NOT NULL  -- JSON
) STRICT, WITHOUT ROWID;
INSERT INTO "learned_file" VALUES('healing-patterns.json','89c607154629ec80ccf66d71a47fa1378517a8c410a2650b4d4adb9880618aa9','[["b329a3c16604e510",{"error_signature":"b329a3c16604e510","error_type":"runtime_error","first_seen":"2026-11-18T03:01:28Z","fixes_attempted":[{"description":"printf 6 > sum.txt","result":"failed"}],"last_seen":"2026-11-18T03:01:28Z","normalized_error":"stock service eu-<n> does not answer","successful_fix":"printf 5 > sum.txt"}]]');
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('memory','17a64890de41763f');
INSERT INTO "meta" VALUES('schema','2');
CREATE TABLE remedy (
    failure  INTEGER NOT NULL REFERENCES failure (id) ON DELETE CASCADE,
    digest   BLOB NOT NULL,
    kind     TEXT NOT NULL,
    text     TEXT NOT NULL,
    since    INTEGER NOT NULL,
    by       TEXT NOT NULL,
    record   TEXT NOT NULL, -- JSON
    outcomes TEXT NOT NULL, -- JSON
    PRIMARY KEY (failure, digest)
) STRICT, WITHOUT ROWID;
INSERT INTO "remedy" VALUES(1,X'64C01F59E7E6D86E9F8434B95D0D42D9161C69D80CBC6BDA76B5011C3142FF57','command','printf 6 > sum.txt',1794970888298541,'ada','{"proven":0,"transient":0,"flaky":0,"masked":0,"failed":1,"losing":1,"last":"2026-11-18T03:01:28.298541017Z"}','[{"at":"2026-11-18T03:01:28.298541017Z","by":"ada","project":"project","proof":"failed"}]');
INSERT INTO "remedy" VALUES(1,X'C3C5E6D5DD5299FF1C922323CA683D8821B5CF86D6D1643507C9A3D13240374B','command','printf 5 > sum.txt',1794970888176272,'ada','{"proven":3,"transient":0,"flaky":0,"masked":0,"failed":0,"losing":0,"last":"2026-11-18T03:01:32.592253993Z","healed":"2026-11-18T03:01:32.592253993Z"}','[{"at":"2026-11-18T03:01:29.913793093Z","by":"salve","incident":"5da91f17-16de-473e-b5e6-9990d717d54f","project":"project","proof":"proven"},{"at":"2026-11-18T03:01:31.126759612Z","by":"salve","incident":"7d994c9f-abcf-4278-9f45-38eb78aff9b8","project":"project","proof":"proven"},{"at":"2026-11-18T03:01:32.592253993Z","by":"salve","incident":"bbb59b04-77c3-4082-b99b-20611b81b907","project":"project","proof":"proven"}]');
CREATE INDEX entry_by_incident ON entry (incident, seq) WHERE incident IS NOT NULL;
CREATE INDEX entry_by_kind ON entry (kind, seq);
CREATE INDEX failure_by_time ON failure (last_seen);
CREATE INDEX failure_with_remedy ON failure (last_seen) WHERE remedies > 0;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('failure',5);
COMMIT;
PRAGMA user_version = 2;
PRAGMA application_id = 1396788310;
PRAGMA journal_mode = WAL;
