package hiveacid;

import org.apache.hadoop.hive.ql.hooks.ExecuteWithHookContext;
import org.apache.hadoop.hive.ql.hooks.HookContext;

/** Fails a statement, or ends the process, between its tasks and its commit: {@code !hook fail|halt|off}. */
public class Breaking implements ExecuteWithHookContext {
  static volatile String how = "off";

  @Override
  public void run(HookContext context) {
    if (how.equals("halt")) {
      Tool.end(0);
    } else if (how.equals("fail")) {
      throw new IllegalStateException("made to fail");
    }
  }
}
