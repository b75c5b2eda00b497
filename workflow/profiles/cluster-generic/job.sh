#!/bin/bash
# properties = {properties}
trap : TERM
{exec_job}
