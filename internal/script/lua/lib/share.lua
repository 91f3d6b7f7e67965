-- How free permits are granted to the clients in the queue.
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
--       3 the channel of clients that do not queue
--       4 the queue: see lib/queue.lua
local MOST = 16  -- permits that a call grants to one client; a client that wants more is told to ask
local READ = 256 -- entries that a call reads at most

-- grant takes permits for an owner and tells its client. It returns how many it has taken: a late copy of a request may have taken some
-- already. It returns false if the user may not publish on the channel of the client.
local function grant(publish, client, owner, n, ms, score)
  local time = redis.call('time')
  local ends, ids = time[1] * 1000 + math.floor(time[2] / 1000) + ms, {}
  for i = 1, n do
    local hex = string.sub(redis.sha1hex(owner .. ':' .. i - 1), 1, 32)
    local id = string.gsub(hex, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
    if redis.call('zadd', KEYS[2], 'nx', ends, id) == 1 then
      ids[#ids + 1] = id
    elseif tonumber(redis.call('zscore', KEYS[2], id)) < ends then
      redis.call('zadd', KEYS[2], ends, id)
    end
  end
  redis.call('decrby', KEYS[1], #ids)
  local ttl = redis.call('pttl', KEYS[1])
  if ttl > 0 then redis.call('pexpire', KEYS[2], ttl) end
  if announce(publish, client, owner, string.format('%.0f', time[1] * 1000000 + time[2]), ms, score) then return #ids end
  if #ids > 0 then redis.call('zrem', KEYS[2], unpack(ids)) end
  redis.call('incrby', KEYS[1], #ids)
  return false
end

local moved = false -- another entry is the first now

-- share grants free permits to the clients in the queue, from a place on. It passes over those that want more permits than are free. If
-- it stops at a bound, it tells the next client to ask, which continues from there. It returns how many permits are free, how many
-- clients wait that do not queue, nil if that is unknown, and whether they should be told, because a client in the queue must ask.
local function share(free, at, publish, lot)
  local others, checked, read = nil, 0, 0
  while free > 0 do
    local entry = redis.pcall('zrange', queue, at, at, 'withscores')
    local member = entry[1]
    if not member then break end
    local client, owner, wanted = parse(member)
    local listening, foreign
    local kind, ms = spell(wanted or '')
    local n = tonumber(string.match(kind, '^:permits(%d+)$') or nil) or 0
    read = read + 1
    local bound = read > READ or checked >= SKIPS
    if n > free and not bound then
      at = at + 1
    else
      if n > 0 then
        checked = checked + 1
        others, foreign, listening = listeners(publish, KEYS[3], queue, client)
        if not others then return free, nil, true end
      end
      if not listening or listening == 0 then -- it is not there any more, or waits for a lock with this name
        moved = moved or at == 0
        if fails(redis.pcall('zrem', queue, member)) or #member > LONG then break end
        if checked >= 2 * SKIPS or read > 2 * READ then return free, others, true end -- it tells all
      elseif bound then
        told(publish, client, '')
        return free, others, false
      elseif n > MOST or free_for_all(others, 0, lot) then
        told(publish, client, '')
        return free, others, true
      else
        local taken = not fails(redis.pcall('zrem', queue, member)) and grant(publish, client, owner, n, ms, entry[2])
        if not taken then return free, others, true end
        free, moved = free - taken, moved or at == 0
      end
    end
  end
  if not others and at > 0 then others = listeners(publish, KEYS[3], queue, queue) end -- it passed over all
  return free, others, not others
end
