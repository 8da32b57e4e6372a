"""A channel to DingTalk, over dingtalk-stream."""
