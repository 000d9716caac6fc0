<?php
// State and event in one transaction, with PDO: PDO_DSN='pgsql:host=…;dbname=…;user=…;password=…' php append.php <../events.jsonl
const STATE = 'INSERT INTO recipe_orders VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET status = excluded.status';
const ONE = 'SELECT outbox_append(:stream, :type, :payload, topic => :topic, partition_key => :key, expected_version => :expected)';
// The function for many publishes bytes as they are and tells new from duplicate, as outbox_append_one_bytes does without the partition.
const MANY = 'SELECT sequence, partition_key, duplicate FROM outbox_append_batch(ARRAY[:stream], ARRAY[:type], ARRAY[:payload::bytea],
    topics => ARRAY[:topic], partition_keys => ARRAY[:key], expected_versions => ARRAY[:expected::bigint], dedupe_keys => ARRAY[:message])';

$db = new PDO(getenv('PDO_DSN'));
while (($line = fgets(STDIN)) !== false) {
    // Here the payload is a text that holds JSON. Pass such a text as it is, an array through json_encode: it stays an
    // object when empty only as new stdClass, and json_decode makes floats of integers beyond 64 bits.
    $event = json_decode($line, true, flags: JSON_THROW_ON_ERROR) + ['topic' => null, 'key' => null, 'expected' => null];
    $many = isset($event['message']);
    $db->beginTransaction();
    try {
        $db->prepare(STATE)->execute([$event['stream'], $event['type']]);
        $append = $db->prepare($many ? MANY : ONE);
        foreach ($event as $name => $value) {
            $bytes = $many && $name === 'payload'; // as bytea, else a text ends at a zero byte
            $append->bindValue($name, $value, $bytes ? PDO::PARAM_LOB : PDO::PARAM_STR);
        }
        $append->execute();
        $appended = $append->fetch(PDO::FETCH_NUM);
        if (($argv[1] ?? '') === 'rollback') {
            throw new RuntimeException('asked to roll back');
        }
        $db->commit();
        echo implode(' ', array_map(fn ($value) => is_bool($value) ? var_export($value, true) : $value, $appended)), "\n";
    } catch (Throwable $error) {
        $db->rollBack();
        if ($error->getCode() !== 'OB001') {
            throw $error;
        }
        echo "OB001\n"; // the stream has another version than expected
    }
}
