"""Answers with an app of Alibaba Cloud Model Studio (Bailian), by the DashScope API."""
