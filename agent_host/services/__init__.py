"""Web services for agents, with credentials that are added here."""

from .catalog import ServiceCatalog
from .catalog_file import load_services
from .endpoint import is_service_request
from .routes import router
from .wiring import create_endpoint

__all__ = ["ServiceCatalog", "create_endpoint", "is_service_request", "load_services", "router"]
