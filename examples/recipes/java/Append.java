// State and event in one transaction, with JDBC:
// JDBC_DATABASE_URL='jdbc:postgresql://…' java -cp /usr/share/java/postgresql.jar:/usr/share/java/gson.jar Append.java <../events.jsonl
import com.google.gson.Gson;
import java.io.*;
import java.sql.*;
import static java.nio.charset.StandardCharsets.UTF_8;

public class Append {
    static final String STATE = "INSERT INTO recipe_orders VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET status = excluded.status";
    // JDBC declares a String as varchar: jsonb takes a cast.
    static final String ONE = "SELECT outbox_append(?, ?, ?::jsonb, topic => ?, partition_key => ?, expected_version => ?)";
    // The function for many publishes bytes as they are and tells new from duplicate, as outbox_append_one_bytes does without the partition.
    static final String MANY = """
        SELECT sequence, partition_key, duplicate FROM outbox_append_batch(ARRAY[?], ARRAY[?], ARRAY[?], topics => ARRAY[?],
            partition_keys => ARRAY[?], expected_versions => ARRAY[?], dedupe_keys => ARRAY[?])""";

    static class Event { String stream, type, payload, topic, key, message; Long expected; } // the payload is a text that holds JSON

    public static void main(String[] args) throws Exception {
        try (var db = DriverManager.getConnection(System.getenv("JDBC_DATABASE_URL"));
             var lines = new BufferedReader(new InputStreamReader(System.in, UTF_8))) {
            db.setAutoCommit(false);
            for (String line; (line = lines.readLine()) != null; ) {
                var event = new Gson().fromJson(line, Event.class);
                var many = event.message != null;
                try (var state = db.prepareStatement(STATE); var append = db.prepareStatement(many ? MANY : ONE)) {
                    state.setString(1, event.stream);
                    state.setString(2, event.type);
                    state.executeUpdate();
                    append.setString(1, event.stream);
                    append.setString(2, event.type);
                    append.setString(4, event.topic);
                    append.setString(5, event.key);
                    append.setObject(6, event.expected, Types.BIGINT);
                    if (many) {
                        append.setBytes(3, event.payload.getBytes(UTF_8));
                        append.setString(7, event.message);
                    } else {
                        append.setString(3, event.payload);
                    }
                    var appended = append.executeQuery();
                    appended.next();
                    if (args.length == 1 && args[0].equals("rollback")) throw new SQLException("asked to roll back");
                    db.commit();
                    System.out.println(appended.getLong(1) + (many ? " " + appended.getInt(2) + " " + appended.getBoolean(3) : ""));
                } catch (SQLException error) {
                    db.rollback(); // what else is thrown closes the connection, which rolls back
                    if (!"OB001".equals(error.getSQLState())) throw error;
                    System.out.println("OB001"); // the stream has another version than expected
                }
            }
        }
    }
}
