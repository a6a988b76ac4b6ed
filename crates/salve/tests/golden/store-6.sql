-- A store of schema 6, as the present release wrote it, whose words are sealed with the key in
-- `store-6.seal.keys`; see `tests/it/tables.rs`.
BEGIN TRANSACTION;
CREATE TABLE entry (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL, -- microseconds since 1970, UTC
    by       TEXT NOT NULL,    -- JSON
    incident TEXT,
    kind     TEXT NOT NULL,
    version  INTEGER NOT NULL,
    data     TEXT NOT NULL     -- JSON
, seal TEXT) STRICT;
INSERT INTO "entry" VALUES(1,1795034105814746,'{"person":{"name":"ada"}}',NULL,'learned',1,'{"proof":"failed","remedy":"64c01f59e7e6d86e9f8434b95d0d42d9161c69d80cbc6bda76b5011c3142ff57","signature":"b329a3c16604e510"}','b15bc4c20f4b3b97:f113ccceb4c1537a09720182fff277026968e8343b21bb6c28f34938a6284b45');
INSERT INTO "entry" VALUES(2,1795034106000332,'{"person":{"name":"ada"}}',NULL,'noted',1,'{"text":"taught for b329a3c16604e510: printf 5 > sum.txt"}','b15bc4c20f4b3b97:936fd5d7b6bad2cd436f400f7106e760d217d96f851d0117c7b23915b4fbc1b2');
INSERT INTO "entry" VALUES(3,1795034106314960,'{"salve":{"pid":25636,"started":236146,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','opened',1,'{"policy":{"at_a_loss":"ask","backoff_ms":0,"catastrophe_after":3,"cooldown_ms":0,"engage_ms":30000,"limits":{"attempts":5,"money_micros":5000000,"tokens":50000},"max_files":8,"max_lines":300,"no_progress_limit":1,"on_failure":"undo","person":"ada","quiet_ms":0,"watch_ms":0,"write_ms":120000},"subject":{"kind":"check","name":"sh check.sh","repeat":"safe"},"symptom":{"acted":"no","class":"runtime_error","exit":{"code":1},"key_line":"error: stock service eu-1 does not answer","signature":"b329a3c16604e510"}}',NULL);
INSERT INTO "entry" VALUES(4,1795034106314967,'{"salve":{"pid":25636,"started":236146,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','claimed',1,'{}',NULL);
INSERT INTO "entry" VALUES(5,1795034106428749,'{"salve":{"pid":25636,"started":236146,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','judged',1,'{"judgement":{"reason":"the command matches a pattern that needs a person","rule":"require_human[0]","verdict":"ask"},"remedy":{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","kind":"command","origin":"project","repeat":"unsafe","text":"printf 5 > sum.txt","undo":"snapshot"}}',NULL);
INSERT INTO "entry" VALUES(6,1795034106428779,'{"salve":{"pid":25636,"started":236146,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','requested',1,'{"effect":1,"what":"ask"}',NULL);
INSERT INTO "entry" VALUES(7,1795034106446852,'{"salve":{"pid":25636,"started":236146,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','finished',2,'{"effect":1,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(8,1795034106465992,'{"salve":{"pid":25636,"started":236146,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','released',1,'{}',NULL);
INSERT INTO "entry" VALUES(9,1795034106626271,'{"person":{"name":"ada"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','approved',1,'{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","question":1}','b15bc4c20f4b3b97:5e730f1d95b114731578f15c301ba4593ce208b1fa7c3e618f1b711e1add7f52');
INSERT INTO "entry" VALUES(10,1795034106784477,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','claimed',1,'{}',NULL);
INSERT INTO "entry" VALUES(11,1795034106815171,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','requested',1,'{"effect":2,"what":"snapshot"}',NULL);
INSERT INTO "entry" VALUES(12,1795034106917832,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','finished',2,'{"effect":2,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(13,1795034106917910,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','requested',1,'{"effect":3,"what":{"apply":{"on":{"approval":9},"remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee"}}}',NULL);
INSERT INTO "entry" VALUES(14,1795034107070440,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','files_changed',1,'{"effect":3,"files":[{"lines":2,"path":"sum.txt"}],"more":0}',NULL);
INSERT INTO "entry" VALUES(15,1795034107071730,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','finished',2,'{"effect":3,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(16,1795034107071763,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','requested',1,'{"effect":4,"what":"verify"}',NULL);
INSERT INTO "entry" VALUES(17,1795034107409326,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','proof_explained',1,'{"taken_back":false,"why":"the state before the repair still fails the same way"}',NULL);
INSERT INTO "entry" VALUES(18,1795034107410565,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','finished',2,'{"effect":4,"report":{"verified":{"proof":"proven"}}}',NULL);
INSERT INTO "entry" VALUES(19,1795034107410621,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','ended',1,'{"outcome":{"recovered":"proven"}}',NULL);
INSERT INTO "entry" VALUES(20,1795034107449959,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','requested',1,'{"effect":5,"what":"record"}',NULL);
INSERT INTO "entry" VALUES(21,1795034107560662,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}',NULL,'learned',1,'{"proof":"proven","remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","signature":"b329a3c16604e510"}',NULL);
INSERT INTO "entry" VALUES(22,1795034107662028,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','finished',2,'{"effect":5,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(23,1795034107662109,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','requested',1,'{"effect":6,"what":"release"}',NULL);
INSERT INTO "entry" VALUES(24,1795034107665387,'{"salve":{"pid":25656,"started":236204,"host":"laptop"}}','b4925f88-4c19-40c7-86d5-4eeec1aadce1','finished',2,'{"effect":6,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(25,1795034107958986,'{"salve":{"pid":25742,"started":236315,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','opened',1,'{"policy":{"at_a_loss":"ask","backoff_ms":0,"catastrophe_after":3,"cooldown_ms":0,"engage_ms":30000,"limits":{"attempts":5,"money_micros":5000000,"tokens":50000},"max_files":8,"max_lines":300,"no_progress_limit":1,"on_failure":"undo","person":"ada","quiet_ms":0,"watch_ms":0,"write_ms":120000},"subject":{"kind":"check","name":"sh check.sh","repeat":"safe"},"symptom":{"acted":"no","class":"runtime_error","exit":{"code":1},"key_line":"error: stock service eu-1 does not answer","signature":"b329a3c16604e510"}}',NULL);
INSERT INTO "entry" VALUES(26,1795034107958993,'{"salve":{"pid":25742,"started":236315,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','claimed',1,'{}',NULL);
INSERT INTO "entry" VALUES(27,1795034108059728,'{"salve":{"pid":25742,"started":236315,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','judged',1,'{"judgement":{"reason":"the command matches a pattern that needs a person","rule":"require_human[0]","verdict":"ask"},"remedy":{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","kind":"command","origin":"project","repeat":"unsafe","text":"printf 5 > sum.txt","undo":"snapshot"}}',NULL);
INSERT INTO "entry" VALUES(28,1795034108059768,'{"salve":{"pid":25742,"started":236315,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','requested',1,'{"effect":1,"what":"ask"}',NULL);
INSERT INTO "entry" VALUES(29,1795034108066532,'{"salve":{"pid":25742,"started":236315,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','finished',2,'{"effect":1,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(30,1795034108082154,'{"salve":{"pid":25742,"started":236315,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','released',1,'{}',NULL);
INSERT INTO "entry" VALUES(31,1795034108168396,'{"person":{"name":"ada"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','approved',1,'{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","question":1}','b15bc4c20f4b3b97:694d83746659d308b701c9e843d08c3e209dc25dcda58c8c60b35d1112c06fec');
INSERT INTO "entry" VALUES(32,1795034108308297,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','claimed',1,'{}',NULL);
INSERT INTO "entry" VALUES(33,1795034108323077,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','requested',1,'{"effect":2,"what":"snapshot"}',NULL);
INSERT INTO "entry" VALUES(34,1795034108418304,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','finished',2,'{"effect":2,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(35,1795034108418373,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','requested',1,'{"effect":3,"what":{"apply":{"on":{"approval":31},"remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee"}}}',NULL);
INSERT INTO "entry" VALUES(36,1795034108618306,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','files_changed',1,'{"effect":3,"files":[{"lines":2,"path":"sum.txt"}],"more":0}',NULL);
INSERT INTO "entry" VALUES(37,1795034108620650,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','finished',2,'{"effect":3,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(38,1795034108620673,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','requested',1,'{"effect":4,"what":"verify"}',NULL);
INSERT INTO "entry" VALUES(39,1795034108931192,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','proof_explained',1,'{"taken_back":false,"why":"the state before the repair still fails the same way"}',NULL);
INSERT INTO "entry" VALUES(40,1795034108932200,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','finished',2,'{"effect":4,"report":{"verified":{"proof":"proven"}}}',NULL);
INSERT INTO "entry" VALUES(41,1795034108932225,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','ended',1,'{"outcome":{"recovered":"proven"}}',NULL);
INSERT INTO "entry" VALUES(42,1795034108990043,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','requested',1,'{"effect":5,"what":"record"}',NULL);
INSERT INTO "entry" VALUES(43,1795034109029815,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}',NULL,'learned',1,'{"proof":"proven","remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","signature":"b329a3c16604e510"}',NULL);
INSERT INTO "entry" VALUES(44,1795034109054432,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','finished',2,'{"effect":5,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(45,1795034109054492,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','requested',1,'{"effect":6,"what":"release"}',NULL);
INSERT INTO "entry" VALUES(46,1795034109073956,'{"salve":{"pid":25761,"started":236358,"host":"laptop"}}','3dca3b4d-3777-47a1-b9b1-a4f42840cc21','finished',2,'{"effect":6,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(47,1795034109302943,'{"salve":{"pid":25841,"started":236451,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','opened',1,'{"policy":{"at_a_loss":"ask","backoff_ms":0,"catastrophe_after":3,"cooldown_ms":0,"engage_ms":30000,"limits":{"attempts":5,"money_micros":5000000,"tokens":50000},"max_files":8,"max_lines":300,"no_progress_limit":1,"on_failure":"undo","person":"ada","quiet_ms":0,"watch_ms":0,"write_ms":120000},"subject":{"kind":"check","name":"sh check.sh","repeat":"safe"},"symptom":{"acted":"no","class":"runtime_error","exit":{"code":1},"key_line":"error: stock service eu-1 does not answer","signature":"b329a3c16604e510"}}',NULL);
INSERT INTO "entry" VALUES(48,1795034109302950,'{"salve":{"pid":25841,"started":236451,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','claimed',1,'{}',NULL);
INSERT INTO "entry" VALUES(49,1795034109451668,'{"salve":{"pid":25841,"started":236451,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','judged',1,'{"judgement":{"reason":"the command matches a pattern that needs a person","rule":"require_human[0]","verdict":"ask"},"remedy":{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","kind":"command","origin":"project","repeat":"unsafe","text":"printf 5 > sum.txt","undo":"snapshot"}}',NULL);
INSERT INTO "entry" VALUES(50,1795034109451709,'{"salve":{"pid":25841,"started":236451,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','requested',1,'{"effect":1,"what":"ask"}',NULL);
INSERT INTO "entry" VALUES(51,1795034109452448,'{"salve":{"pid":25841,"started":236451,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','finished',2,'{"effect":1,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(52,1795034109469201,'{"salve":{"pid":25841,"started":236451,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','released',1,'{}',NULL);
INSERT INTO "entry" VALUES(53,1795034109585538,'{"person":{"name":"ada"}}','49aa425f-6733-4709-87ea-ce66380060d7','approved',1,'{"digest":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","question":1}','b15bc4c20f4b3b97:33cee3f72d1fc90c67eac0f4e997e9a779b3881865270e881c82ce2efbf6799c');
INSERT INTO "entry" VALUES(54,1795034109774300,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','claimed',1,'{}',NULL);
INSERT INTO "entry" VALUES(55,1795034109786690,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','requested',1,'{"effect":2,"what":"snapshot"}',NULL);
INSERT INTO "entry" VALUES(56,1795034109895790,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','finished',2,'{"effect":2,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(57,1795034109895855,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','requested',1,'{"effect":3,"what":{"apply":{"on":{"approval":53},"remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee"}}}',NULL);
INSERT INTO "entry" VALUES(58,1795034109998105,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','files_changed',1,'{"effect":3,"files":[{"lines":2,"path":"sum.txt"}],"more":0}',NULL);
INSERT INTO "entry" VALUES(59,1795034110000714,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','finished',2,'{"effect":3,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(60,1795034110000735,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','requested',1,'{"effect":4,"what":"verify"}',NULL);
INSERT INTO "entry" VALUES(61,1795034110334969,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','proof_explained',1,'{"taken_back":false,"why":"the state before the repair still fails the same way"}',NULL);
INSERT INTO "entry" VALUES(62,1795034110338572,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','finished',2,'{"effect":4,"report":{"verified":{"proof":"proven"}}}',NULL);
INSERT INTO "entry" VALUES(63,1795034110338598,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','ended',1,'{"outcome":{"recovered":"proven"}}',NULL);
INSERT INTO "entry" VALUES(64,1795034110354735,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','requested',1,'{"effect":5,"what":"record"}',NULL);
INSERT INTO "entry" VALUES(65,1795034110364863,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}',NULL,'learned',1,'{"proof":"proven","remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","signature":"b329a3c16604e510"}',NULL);
INSERT INTO "entry" VALUES(66,1795034110375367,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','finished',2,'{"effect":5,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(67,1795034110375400,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','requested',1,'{"effect":6,"what":"release"}',NULL);
INSERT INTO "entry" VALUES(68,1795034110386103,'{"salve":{"pid":25861,"started":236502,"host":"laptop"}}','49aa425f-6733-4709-87ea-ce66380060d7','finished',2,'{"effect":6,"report":"done"}',NULL);
INSERT INTO "entry" VALUES(69,1795034110492908,'{"person":{"name":"ada"}}',NULL,'rule_accepted',1,'{"remedy":"b6dbdfb6f93ca096c2d371d9d9460cfb0e95e6b04e4388cf49f3302b710c93ee","signature":"b329a3c16604e510"}','b15bc4c20f4b3b97:f7c3bd7d20da7f4d8a755f6c7d555cb59cc08acd0c9fc476720c800db0b75cd1');
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
, key_line TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO "failure" VALUES(1,-5536714215839701744,'runtime_error','runtime_error','stock service eu-<n> does not answer',NULL,1795034105814746,1795034110355496,3,2,0,'error: stock service eu-1 does not answer');
CREATE TABLE job_artifact (
    job TEXT NOT NULL,
    name TEXT NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (job, name)
) STRICT;
CREATE TABLE job_queue (
    number INTEGER PRIMARY KEY,
    job TEXT NOT NULL UNIQUE,
    -- When it was last written, by this machine's clock, in milliseconds.
    stamped_at INTEGER NOT NULL,
    -- From when on it may be claimed; never, if nothing is said.
    free_at INTEGER,
    data TEXT NOT NULL
) STRICT;
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
INSERT INTO "learned_file" VALUES('healing-patterns.json','e2fc664539b380457c101197e28c3aa1d0399b60d254361037e829631ecc8e9e','[["b329a3c16604e510",{"error_signature":"b329a3c16604e510","error_type":"runtime_error","first_seen":"2026-11-18T20:35:05Z","fixes_attempted":[{"description":"printf 6 > sum.txt","result":"failed"},{"description":"printf 5 > sum.txt","result":"success"}],"last_seen":"2026-11-18T20:35:10Z","normalized_error":"stock service eu-<n> does not answer","successful_fix":"printf 5 > sum.txt"}]]');
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('memory','c721b8b4b50dfb8a');
INSERT INTO "meta" VALUES('schema','6');
INSERT INTO "meta" VALUES('sealed_from','1');
INSERT INTO "meta" VALUES('tables','1-d4b5727c70f73d1c-0000000000000000');
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
INSERT INTO "remedy" VALUES(1,X'64C01F59E7E6D86E9F8434B95D0D42D9161C69D80CBC6BDA76B5011C3142FF57','command','printf 6 > sum.txt',1795034105814746,'ada','{"proven":0,"transient":0,"flaky":0,"masked":0,"failed":1,"losing":1,"last":"2026-11-18T20:35:05.814746262Z"}','[{"at":"2026-11-18T20:35:05.814746262Z","by":"ada","project":"shop","proof":"failed"}]');
INSERT INTO "remedy" VALUES(1,X'C3C5E6D5DD5299FF1C922323CA683D8821B5CF86D6D1643507C9A3D13240374B','command','printf 5 > sum.txt',1795034106000332,'ada','{"proven":3,"transient":0,"flaky":0,"masked":0,"failed":0,"losing":0,"last":"2026-11-18T20:35:10.355496689Z","healed":"2026-11-18T20:35:10.355496689Z"}','[{"at":"2026-11-18T20:35:07.522248325Z","by":"salve","incident":"b4925f88-4c19-40c7-86d5-4eeec1aadce1","project":"shop","proof":"proven"},{"at":"2026-11-18T20:35:08.991433157Z","by":"salve","incident":"3dca3b4d-3777-47a1-b9b1-a4f42840cc21","project":"shop","proof":"proven"},{"at":"2026-11-18T20:35:10.355496689Z","by":"salve","incident":"49aa425f-6733-4709-87ea-ce66380060d7","project":"shop","proof":"proven"}]');
CREATE INDEX entry_by_incident ON entry (incident, seq) WHERE incident IS NOT NULL;
CREATE INDEX entry_by_kind ON entry (kind, seq);
CREATE INDEX failure_by_time ON failure (last_seen);
CREATE INDEX failure_with_remedy ON failure (last_seen) WHERE remedies > 0;
CREATE INDEX entry_by_loop
    ON entry (CASE WHEN json_valid(data) THEN coalesce(data ->> 'id', data ->> 'name') END, seq)
    WHERE kind IN ('loop', 'loop_attached', 'loop_detached', 'manifests_seen', 'recovery_refused');
CREATE INDEX job_queue_by_time ON job_queue (free_at, number) WHERE free_at IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('failure',8);
COMMIT;
PRAGMA user_version = 6;
PRAGMA application_id = 1396788310;
PRAGMA journal_mode = WAL;
