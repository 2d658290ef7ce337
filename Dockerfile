# Node 24.21.0. docs/operations.md tells how to take a newer image.
ARG NODE_IMAGE=node:24-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6

FROM ${NODE_IMAGE} AS build
WORKDIR /svc
COPY package.json package-lock.json ./
RUN npm ci
COPY tsconfig.json ./
COPY bin ./bin
COPY src ./src
RUN npm run build

FROM ${NODE_IMAGE} AS dependencies
WORKDIR /svc
COPY package.json package-lock.json ./
# The embedded PostgreSQL is optional and left out: a container uses DATABASE_URL.
RUN npm ci --omit=dev --omit=optional

FROM ${NODE_IMAGE}
# Git reads sources. ssh and the certificates are for their servers.
RUN apt-get update && apt-get install -y --no-install-recommends git openssh-client ca-certificates && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 DATA_DIR=/var/lib/svc
WORKDIR /svc
COPY --from=dependencies /svc ./
COPY --from=build /svc/dist ./dist
COPY bin ./bin
COPY docs ./docs
COPY migrations ./migrations
COPY views ./views
# Archives live on a volume that belongs to the user who writes them.
RUN ln -s /svc/bin/svc.js /usr/local/bin/svc && install -d -o node -g node /var/lib/svc
VOLUME /var/lib/svc
USER node
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then((response) => process.exit(response.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/main.js"]
