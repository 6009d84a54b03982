"""The page of an audit: what every probe showed, and the episodes behind it beside what they were changed from."""

from stepscore.report.page.audits.audit_page import audit_page_data

__all__ = ["audit_page_data"]
