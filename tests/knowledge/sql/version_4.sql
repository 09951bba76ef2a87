BEGIN TRANSACTION;
CREATE TABLE tool_calls (
    key INTEGER PRIMARY KEY,
    record_id TEXT,
    call_id TEXT,
    parent_call_id TEXT,
    tool_name TEXT NOT NULL,
    definition_id INTEGER,
    generation INTEGER,
    outcome TEXT NOT NULL,
    error_type TEXT,
    reached_executor INTEGER NOT NULL,
    caller_id TEXT,
    caller_type TEXT NOT NULL,
    conversation_id TEXT,
    workflow_id TEXT,
    agent_id TEXT,
    session_id TEXT,
    bucket TEXT,
    admission_key TEXT,
    priority INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    queue_wait REAL NOT NULL,
    execution_time REAL NOT NULL,
    wait_bin INTEGER NOT NULL,
    time_bin INTEGER NOT NULL,
    result_size INTEGER,
    error TEXT,
    params TEXT NOT NULL,
    result TEXT,
    result_hash BLOB,
    whole_hash BLOB
);
INSERT INTO "tool_calls" VALUES(1807294464000000271,NULL,'call-0',NULL,'tool-0',NULL,1,'timeout','timeout',1,NULL,'direct','chat-0',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936000000000,0.5,0.25,455,431,9,'it failed','{}','{"number":0}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294465024000271,NULL,'call-1',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936001000000,0.0,0.25,0,431,9,NULL,'{}','{"number":1}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294466048000271,NULL,'call-2',NULL,'tool-2',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-0',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936002000000,0.0,0.25,0,431,9,NULL,'{}','{"number":2}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294467072000271,NULL,'call-3',NULL,'tool-0',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936003000000,0.0,0.25,0,431,9,NULL,'{}','{"number":3}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294468096000271,NULL,'call-4',NULL,'tool-1',NULL,1,'timeout','timeout',1,NULL,'direct','chat-0',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936004000000,0.0,0.25,0,431,9,'it failed','{}','{"number":4}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294469120000271,NULL,'call-5',NULL,'tool-2',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936005000000,0.5,0.25,455,431,9,NULL,'{}','{"number":5}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294470144000271,NULL,'call-6',NULL,'tool-0',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-0',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936006000000,0.0,0.25,0,431,9,NULL,'{}','{"number":6}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294471168000271,NULL,'call-7',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936007000000,0.0,0.25,0,431,9,NULL,'{}','{"number":7}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294472192000271,NULL,'call-8',NULL,'tool-2',NULL,1,'timeout','timeout',1,NULL,'direct','chat-0',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936008000000,0.0,0.25,0,431,9,'it failed','{}','{"number":8}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294473216000271,NULL,'call-9',NULL,'tool-0',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936009000000,0.0,0.25,0,431,9,NULL,'{}','{"number":9}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294474240000271,NULL,'call-10',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-0',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936010000000,0.5,0.25,455,431,9,NULL,'{}','{"number":10}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807294475264000271,NULL,'call-11',NULL,'tool-2',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936011000000,0.0,0.25,0,431,9,NULL,'{}','{"number":11}',NULL,NULL);
CREATE TABLE tool_definitions (
    id INTEGER PRIMARY KEY,
    tool_name TEXT NOT NULL,
    version TEXT,
    definition_hash TEXT
);
CREATE TABLE tool_engine_schema (version INTEGER);
INSERT INTO "tool_engine_schema" VALUES(4);
CREATE TABLE tool_event_numbers (
    id INTEGER PRIMARY KEY,
    reserved INTEGER NOT NULL
);
CREATE TABLE tool_events (
    sequence INTEGER PRIMARY KEY,
    event_type TEXT NOT NULL,
    happened_at INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE tool_marks (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
);
CREATE TABLE tool_statistics (
    hour INTEGER NOT NULL,
    tool_name TEXT NOT NULL,
    bucket TEXT NOT NULL,
    outcome TEXT NOT NULL,
    error_type TEXT NOT NULL,
    measure TEXT NOT NULL,
    bin INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    seconds REAL NOT NULL,
    largest REAL NOT NULL,
    newest INTEGER NOT NULL,
    PRIMARY KEY (hour, tool_name, bucket, outcome, error_type, measure, bin)
) WITHOUT ROWID
;
INSERT INTO "tool_statistics" VALUES(-4611686018427387904,'tool-0','','succeeded','','execution_time',431,3,0.75,0.25,1807294473216000271);
INSERT INTO "tool_statistics" VALUES(-4611686018427387904,'tool-0','','timeout','timeout','execution_time',431,1,0.25,0.25,1807294464000000271);
INSERT INTO "tool_statistics" VALUES(-4611686018427387904,'tool-0','','timeout','timeout','queue_wait',455,1,0.5,0.5,1807294464000000271);
INSERT INTO "tool_statistics" VALUES(-4611686018427387904,'tool-1','','succeeded','','execution_time',431,3,0.75,0.25,1807294474240000271);
INSERT INTO "tool_statistics" VALUES(-4611686018427387904,'tool-1','','succeeded','','queue_wait',455,1,0.5,0.5,1807294474240000271);
INSERT INTO "tool_statistics" VALUES(-4611686018427387904,'tool-1','','timeout','timeout','execution_time',431,1,0.25,0.25,1807294468096000271);
INSERT INTO "tool_statistics" VALUES(-4611686018427387904,'tool-2','','succeeded','','execution_time',431,3,0.75,0.25,1807294475264000271);
INSERT INTO "tool_statistics" VALUES(-4611686018427387904,'tool-2','','succeeded','','queue_wait',455,1,0.5,0.5,1807294469120000271);
INSERT INTO "tool_statistics" VALUES(-4611686018427387904,'tool-2','','timeout','timeout','execution_time',431,1,0.25,0.25,1807294472192000271);
INSERT INTO "tool_statistics" VALUES(490260,'tool-0','','succeeded','','execution_time',431,3,0.75,0.25,1807294473216000271);
INSERT INTO "tool_statistics" VALUES(490260,'tool-0','','timeout','timeout','execution_time',431,1,0.25,0.25,1807294464000000271);
INSERT INTO "tool_statistics" VALUES(490260,'tool-0','','timeout','timeout','queue_wait',455,1,0.5,0.5,1807294464000000271);
INSERT INTO "tool_statistics" VALUES(490260,'tool-1','','succeeded','','execution_time',431,3,0.75,0.25,1807294474240000271);
INSERT INTO "tool_statistics" VALUES(490260,'tool-1','','succeeded','','queue_wait',455,1,0.5,0.5,1807294474240000271);
INSERT INTO "tool_statistics" VALUES(490260,'tool-1','','timeout','timeout','execution_time',431,1,0.25,0.25,1807294468096000271);
INSERT INTO "tool_statistics" VALUES(490260,'tool-2','','succeeded','','execution_time',431,3,0.75,0.25,1807294475264000271);
INSERT INTO "tool_statistics" VALUES(490260,'tool-2','','succeeded','','queue_wait',455,1,0.5,0.5,1807294469120000271);
INSERT INTO "tool_statistics" VALUES(490260,'tool-2','','timeout','timeout','execution_time',431,1,0.25,0.25,1807294472192000271);
CREATE TABLE tool_values (
    hash BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE UNIQUE INDEX tool_calls_record ON tool_calls (record_id) WHERE record_id IS NOT NULL;
CREATE INDEX tool_calls_call ON tool_calls (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX tool_calls_parent ON tool_calls (parent_call_id) WHERE parent_call_id IS NOT NULL;
CREATE INDEX tool_calls_caller ON tool_calls (caller_id) WHERE caller_id IS NOT NULL;
CREATE INDEX tool_calls_workflow ON tool_calls (workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX tool_calls_error ON tool_calls (error_type) WHERE error_type IS NOT NULL;
CREATE INDEX tool_calls_tool ON tool_calls (tool_name);
CREATE INDEX tool_calls_failed ON tool_calls (key) WHERE outcome <> 'succeeded';
CREATE INDEX tool_calls_conversation ON tool_calls (conversation_id, key, tool_name, outcome, error_type, execution_time) WHERE conversation_id IS NOT NULL;
COMMIT;
